/* ---- The document -------------------------------------------------------- */

const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';

function put(node, text) { /* touch the document only when something changed */
  if (node.textContent !== text) node.textContent = text;
  return node;
}
function attributes(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (name === 'text') put(node, value);
    else if (name === 'on') for (const [event, fn] of Object.entries(value)) node.addEventListener(event, fn);
    else if (value === null || value === false) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? '' : value);
  }
  return node;
}
function el(tag, props = {}, ...kids) {
  const node = attributes(document.createElement(tag), props);
  node.append(...kids.filter((kid) => kid !== null));
  return node;
}
const shape = (tag, props) => attributes(document.createElementNS(SVG, tag), props);
const id = (text, mono = true) => el('bdi', { class: mono ? 'mono' : null, text: clean(text) });

/* Keep a list of nodes in step with a list of things, by key: who has the focus keeps it. */
function keyed(parent, things, keyOf, make) {
  const old = parent.kept || new Map(), rows = new Map();
  let last = null;
  for (const thing of things) {
    const key = keyOf(thing);
    if (rows.has(key)) continue;
    const row = old.get(key) || make(thing);
    rows.set(key, row);
    row.update(thing);
    const next = last ? last.nextSibling : parent.firstChild;
    if (row.node !== next) parent.insertBefore(row.node, next);
    last = row.node;
  }
  for (const [key, row] of old) if (!rows.has(key)) row.node.remove();
  parent.kept = rows;
}

/* A holder keeps its colour: by its name, and the next free one if two names meet. */
const colours = new Map();
function colour(holder) {
  if (!colours.has(holder)) {
    let hash = 7;
    for (const c of String(holder)) hash = (hash * 31 + c.codePointAt(0)) % 65521;
    const taken = new Set(colours.values());
    let at = hash % 8;
    for (let i = 0; i < 8 && taken.has(at); i++) at = (at + 1) % 8;
    colours.set(holder, at);
  }
  return 'h' + colours.get(holder);
}

let announced = '';
function announce(text) { /* for screen readers: changes only, never the clock */
  if (text !== announced) put($('live'), announced = text);
}
function toast(text, mood) {
  const node = el('div', { class: 'toast', 'data-mood': mood, 'data-toast': mood }, el('p', { text: clean(text) }));
  node.append(el('button', { type: 'button', class: 'small plain', 'aria-label': 'Dismiss', text: '✕',
    on: { click: () => node.remove() } }));
  $('toasts').append(node);
  while ($('toasts').childElementCount > 4) $('toasts').firstChild.remove();
  announce(clean(text));
  if (mood !== 'bad') setTimeout(() => node.remove(), 12000);
}
