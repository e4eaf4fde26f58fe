// What a page must be to be usable by all.  Runs inside the page; returns what is wrong, in words.
export function faultsOf() {
  const wrong = [];
  const seen = (node) => node.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
  const tell = (what, node) => wrong.push(`${what}: <${node.tagName.toLowerCase()} class="${node.getAttribute('class') || ''}"> ${(node.textContent || '').trim().slice(0, 40)}`);

  // Structure: landmarks, one first heading, no level left out, ids that are alone.
  for (const [selector, least, most] of [['main', 1, 1], ['h1', 1, 1], ['html[lang]', 1, 1], ['body > header', 1, 1], ['body > footer', 1, 1], ['[aria-live=polite]', 1, 1]]) {
    const found = document.querySelectorAll(selector).length;
    if (found < least || found > most) wrong.push(`${found} of ${selector}`);
  }
  let level = 0;
  for (const head of document.querySelectorAll('h1, h2, h3, h4')) {
    if (!seen(head) || head.closest('dialog')) continue;
    const now = Number(head.tagName[1]);
    if (now > level + 1) tell(`a heading of level ${now} after ${level}`, head);
    level = now;
  }
  const ids = new Set();
  for (const node of document.querySelectorAll('[id]')) {
    if (ids.has(node.id)) tell('an id twice', node);
    ids.add(node.id);
  }
  for (const node of document.querySelectorAll('[aria-labelledby]')) if (!ids.has(node.getAttribute('aria-labelledby'))) tell('labelled by nothing', node);

  // Names, and room to hit.
  for (const node of document.querySelectorAll('button, a[href], input, select')) {
    if (!seen(node)) continue;
    const name = node.getAttribute('aria-label') || (node.labels && [...node.labels].map((l) => l.textContent).join(' ')) || (/INPUT|SELECT/.test(node.tagName) ? '' : node.textContent);
    if (!name.trim()) tell('no name', node);
    const box = node.getBoundingClientRect();
    if (node.tagName === 'BUTTON' && (box.width < 24 || box.height < 24)) tell('too small to hit', node);
  }
  for (const svg of document.querySelectorAll('svg')) if (svg.getAttribute('aria-hidden') !== 'true' && !svg.getAttribute('aria-label')) tell('a picture without words', svg);
  for (const cell of document.querySelectorAll('th')) if (!cell.scope) tell('a heading of nothing', cell);

  // Contrast, computed.
  const parse = (text) => { const n = (text.match(/[\d.]+(?:e-?\d+)?/g) || []).map(Number); return text.startsWith('color(') ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const ground = (node) => {
    const layers = [];
    for (let n = node; n; n = n.parentElement) {
      const colour = parse(getComputedStyle(n).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  let texts = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walk.nextNode(); text; text = walk.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !seen(node) || node.closest('.quiet, .skip, script, title, :disabled')) continue;
    const modal = document.querySelector('dialog[open]');
    if (modal && !modal.contains(node)) continue;
    const style = getComputedStyle(node), drawn = node instanceof SVGElement, size = parseFloat(style.fontSize);
    const bar = drawn && node.classList.contains('name') ? node.previousElementSibling : null;
    const behind = bar ? parse(getComputedStyle(bar).fill) : ground(drawn ? node.ownerSVGElement.parentElement : node);
    const front = over(parse(drawn ? style.fill : style.color), behind);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    texts++;
    if (ratio(front, behind) < least) tell(`contrast ${ratio(front, behind).toFixed(2)}`, node);
  }
  if (!texts) wrong.push('no text at all');
  return wrong;
}
