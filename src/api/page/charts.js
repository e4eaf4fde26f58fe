/* ---- The time line of terms ------------------------------------------------ */

const RANGES = [['15 min', 9e5], ['1 h', 36e5], ['24 h', 864e5], ['7 d', 6048e5], ['all', Infinity]];

function drawRanges(view, terms, now) {
  if (!terms.length) return;
  const oldest = terms[0].from, wanted = terms[Math.max(0, terms.length - 6)].from;
  const fits = RANGES.filter(([, span]) => span === Infinity || span < now - oldest);
  const first = fits.find(([, span]) => now - wanted <= span) || fits[fits.length - 1];
  view.span = view.range || first[1];
  view.ranges.hidden = fits.length < 2;
  keyed(view.ranges, fits, ([name]) => name, ([name, span]) => {
    const node = el('button', { type: 'button', text: name, on: { click: () => { view.range = span; view.drawHistory(); } } });
    return { node, update: () => attributes(node, { 'aria-pressed': String(view.span === span) }) };
  });
}

function drawLine(view, terms, now) {
  const box = view.lineBox, width = Math.max(200, box.clientWidth || 600), em = parseFloat(getComputedStyle(document.documentElement).fontSize);
  if (!terms.length) { box.replaceChildren(el('p', { class: 'none-yet', text: 'No term has begun yet.' })); return; }
  const from = view.span === Infinity ? terms[0].from - (now - terms[0].from) * 0.01 : now - view.span;
  const x = (t) => Math.max(0, Math.min(width, (t - from) / Math.max(1, now - from) * width));
  const top = 1.35 * em, high = 2.3 * em, svg = shape('svg', { class: 'line', viewBox: `0 0 ${width} ${6.2 * em}`, role: 'img',
    'aria-label': `Time line of the last ${terms.length} terms; the table below says the same` });
  let end = null;
  const marks = [];
  for (const t of terms) {
    const a = x(t.from), b = Math.max(a + 2, x(t.to || now));
    if (end !== null && x(t.from) - x(end) > 0.5 && t.from > from) svg.append(shape('rect', { class: 'gap', x: x(end), y: top + high * 0.2, width: x(t.from) - x(end), height: high * 0.6 }));
    end = t.to;
    if ((t.to || now) < from) continue;
    const bar = shape('rect', { class: 'term ' + colour(t.holder), x: a + 0.5, y: top, width: Math.max(1.5, b - a - 1), height: high, rx: 3 });
    bar.append(shape('title', { text: `${clean(t.holder)}, ${moment(t.from)}, ${t.to ? duration(t.to - t.from) : t.open ? 'until now' : 'its end is not known'}, reason: ${clean(t.cause)}` }));
    svg.append(bar);
    const name = clean(t.holder), room = Math.floor((b - a - em) / (0.56 * em));
    if (room >= Math.min(name.length, 4)) svg.append(shape('text', { class: 'name', x: a + 0.55 * em, y: top + high / 2 + 0.28 * em, text: name.length > room ? name.slice(0, room - 1) + '…' : name }));
    if (t.from > from) marks.push([a, t]);
  }
  if (end !== null && now - end > 0 && !view.data.leader) svg.append(shape('rect', { class: 'gap', x: Math.min(x(end), width - 4), y: top + high * 0.2, width: Math.max(4, width - x(end)), height: high * 0.6 }));
  let free = -1;
  for (const [a, t] of marks) { /* a mark where a term begins, with its cause where there is room */
    svg.append(shape('circle', { class: 'mark', 'data-mood': causeMood(String(t.cause)), cx: a, cy: top, r: 0.32 * em }));
    const text = clean(t.cause), long = text.length * 0.42 * em;
    if (a > free && a + long < width && a > 0) { svg.append(shape('text', { x: a + 0.5 * em, y: top - 0.45 * em, text })); free = a + long + em; }
  }
  drawAxis(svg, from, now, x, top + high + 0.5 * em, width, em);
  box.replaceChildren(svg);
}

function drawAxis(svg, from, now, x, y, width, em) {
  const steps = [1e3, 5e3, 15e3, 6e4, 3e5, 9e5, 18e5, 36e5, 108e5, 216e5, 432e5, 864e5, 2 * 864e5, 7 * 864e5, 30 * 864e5];
  const most = Math.max(2, Math.floor(width / (6 * em))), step = steps.find((s) => (now - from) / s <= most) || steps[steps.length - 1] * 4;
  svg.append(shape('line', { class: 'axis', x1: 0, x2: width, y1: y, y2: y }));
  const shift = new Date(now).getTimezoneOffset() * 6e4;
  for (let t = Math.ceil((from - shift) / step) * step + shift; t < now; t += step) {
    if (x(t) > width - 4.4 * em || x(t) < 0) continue;
    const label = step >= 864e5 ? dateOf(t).slice(5) : clock(t).startsWith('00:00:00') && step >= 18e5 ? dateOf(t).slice(5) : clock(t).slice(0, step < 6e4 ? 8 : 5);
    svg.append(shape('line', { class: 'axis', x1: x(t), x2: x(t), y1: y, y2: y + 0.35 * em }), shape('text', { x: x(t), y: y + 1.3 * em, 'text-anchor': x(t) < 2 * em ? 'start' : 'middle', text: label }));
  }
  svg.append(shape('text', { x: width, y: y + 1.3 * em, 'text-anchor': 'end', text: 'now, ' + zone(now) }));
}

/* ---- The latency of renewals ----------------------------------------------- */

function drawSpark(box, values, p99) {
  const said = values.join() + ' ' + p99 + ' ' + box.clientWidth;
  if (box.said === said) return;
  box.said = said;
  if (!values.length) { box.replaceChildren(el('p', { class: 'none-yet', text: 'This agent has renewed nothing yet.' })); return; }
  const em = parseFloat(getComputedStyle(document.documentElement).fontSize), width = Math.max(160, box.clientWidth || 300), high = 5 * em;
  const top = Math.max(...values, p99, 0.001) * 1.12, slots = Math.max(30, values.length), w = width / slots, foot = high - 1.2 * em;
  const y = (v) => foot - v / top * (foot - 0.6 * em);
  const svg = shape('svg', { class: 'spark', viewBox: `0 0 ${width} ${high}`, role: 'img',
    'aria-label': `The last ${values.length} renewals took from ${latency(Math.min(...values))} to ${latency(Math.max(...values))} ms` });
  values.forEach((v, i) => {
    const bar = shape('rect', { class: p99 > 0 && v > p99 ? 'high' : null, x: width - (values.length - i) * w + w * 0.15, y: y(v), width: w * 0.7, height: Math.max(1, foot - y(v)), rx: Math.min(2, w * 0.2) });
    bar.append(shape('title', { text: latency(v) + ' ms' }));
    svg.append(bar);
  });
  svg.append(shape('line', { class: 'base', x1: 0, x2: width, y1: foot, y2: foot }));
  if (p99 > 0) svg.append(shape('line', { class: 'p99', x1: 0, x2: width, y1: y(p99), y2: y(p99) }));
  svg.append(shape('text', { x: 0, y: high - 0.15 * em, text: `the last ${values.length}` }),
    shape('text', { x: width, y: high - 0.15 * em, 'text-anchor': 'end', text: p99 > 0 ? `dashed: p99 ${latency(p99)} ms` : 'newest' }));
  box.replaceChildren(svg);
}
