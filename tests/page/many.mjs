// A status with many elections, some of them in trouble: the same at every run.
const HOSTS = ['node-a', 'node-b', 'node-c', 'node-d', 'node-e'];
const AREAS = ['billing', 'orders', 'shipping', 'search', 'mail', 'reports', 'export', 'import', 'cleanup', 'index'];

function election(i, now) {
  const here = HOSTS[0], holder = HOSTS[i % HOSTS.length], since = now - 60000 * (3 + (i * 7919) % 9000);
  const name = AREAS[i % AREAS.length] + (i < AREAS.length ? '' : '-' + Math.floor(i / AREAS.length));
  const candidate = (id, more) => ({ id, state: id === holder ? 'leading' : 'standby', healthy: true, priority: 0, version: '2.4.1',
    address: '10.2.0.1:8080', containment: 'cgroup', since_ms: since - 1000, reason: '', ...more });
  return { name, id: here, role: holder === here ? 'leader' : 'standby', leading: holder === here, reason: holder === here ? 'leads, renewed in time' : holder + ' leads',
    epoch: 1794803078000 + i, left_ms: holder === here ? 11000 : 0, ttl_ms: 15000, renew_ms: 5000, version: 'v' + i,
    leader: { id: holder, epoch: 1794803078000 + i, since_ms: since, address: '10.2.0.1:8080', version: '2.4.1', seen_ms: 400 },
    paused: null, candidates: [candidate(holder), candidate(HOSTS[(i + 1) % HOSTS.length])],
    history: [{ epoch: 1794803078000 + i, holder, from_ms: since, to_ms: null, estimated: false, cause: 'expired', end: '', gap_ms: 1800 }],
    renewals: { ok: 400, failed: {}, p50_ms: 1.2, p99_ms: 3.1, recent_ms: [1, 1.4, 2, 1.1] }, state: null, guard: { containment: 'cgroup', kills: 0 } };
}

// trouble: how many have one, of four kinds in turn.
export function many(count, trouble, now) {
  const elections = Array.from({ length: count }, (_, i) => election(i, now));
  for (let i = 0; i < trouble; i++) {
    const e = elections[Math.floor((i + 0.5) * count / trouble)];
    if (i % 4 === 0) {
      Object.assign(e, { leader: null, leading: false, role: 'standby', reason: 'every candidate is unhealthy: its probe fails' });
      e.history[0].to_ms = now - 192000;
      e.candidates = e.candidates.map((c) => ({ ...c, state: 'unhealthy', healthy: false, reason: 'the probe http://127.0.0.1:8080/healthz answered 503' }));
    } else if (i % 4 === 1) e.paused = { by: 'ops', at: new Date(now - 4e6).toISOString(), reason: 'moving the database' };
    else if (i % 4 === 2) Object.assign(e, { role: 'silent', leading: false, left_ms: 0, reason: 'its process does not answer' });
    else e.warnings = [{ kind: 'crash-loop', text: 'the program ended 7 times in a row, last with code 1' }, { kind: 'from-the-future', text: 'a warning that this page does not know' }];
  }
  return { agent: { host: 'node-a', pid: 4711, version: '0.9.0', started_ms: now - 9e8, now_ms: now }, elections };
}
