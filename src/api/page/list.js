/* ---- All of them ------------------------------------------------------------ */

function render() {
  if (!known) return;
  const agent = known.agent || {}, all = known.elections;
  const up = number(agent.started_ms) ? ' · up ' + duration(agentNow() - number(agent.started_ms)) : '';
  put($('agent'), [clean(agent.host), agent.version ? 'tenure ' + clean(agent.version) : '', agent.pid ? 'process ' + clean(agent.pid) : ''].filter(Boolean).join(' · ') + up);
  put($('empty'), 'This agent takes part in no election.');
  $('empty').hidden = all.length > 0;
  $('elections').classList.toggle('several', all.length > 1);
  keyed($('elections'), all, (e) => String(e.name), (e) => new Election(e.name));
  $('overview').hidden = all.length < 2;
  keyed($('overview'), all.length < 2 ? [] : all, (e) => String(e.name), (e) => new Overview(e));
  const bad = all.filter((e) => !e.leader).length;
  document.title = (link === 'lost' || link === 'silent' ? '(gone) ' : bad ? `(${bad} without leader) ` : '') + (all.length === 1 && all[0].leader ? clean(all[0].leader.id) + ' leads ' + clean(all[0].name) : 'tenure') ;
}

class Overview {
  constructor(e) {
    this.left = el('span', { class: 'soft' });
    this.small = el('small', {});
    this.link = el('a', { href: '#' + $('elections').kept.get(String(e.name)).node.id }, el('span', { class: 'dot', 'aria-hidden': 'true' }), id(e.name, false), this.left, this.small);
    this.node = el('div', {}, this.link);
  }
  update(e) {
    this.node.dataset.mood = mood(e);
    put(this.left, e.leading ? 'leads here' : '');
    put(this.small, (e.leader ? clean(e.leader.id) + ' leads' : 'nobody leads') + (e.paused ? ', paused' : '') +
      (e.role === 'silent' ? '; its process here is silent' : e.role === 'ended' ? '; its process here has ended' : ''));
  }
}
