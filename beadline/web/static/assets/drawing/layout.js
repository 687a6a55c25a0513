// Where the operators of a graph are drawn. Pure: vertices and edges in, positions out.
//
// 1. operators that call each other (edges within a level) form a chain, drawn as one stack
// 2. parts of the graph that are not connected are laid out apart
// 3. in each, levels go from left to right; chains are ordered so that few edges cross, and moved towards their neighbours
// 4. the parts are packed in rows, about twice as wide as high

export const CARD = { width: 216, height: 78, gap: 16 };
const PAD = 12;
const BETWEEN_LEVELS = 92;
const BETWEEN_CHAINS = 26;
const STACK = 12; // a longer chain continues in a further stack
const BETWEEN_COLUMNS = 22; // of one level
const COLUMNS = [1000, 1400, 1900, 2600, 3600, 5000]; // how high columns may be; higher ones continue in a further one
const MANY = 40; // more chains than this are stacked up closely
const SHAPE = 2.4; // how much wider than high a drawing is best

export function layout(vertices, edges) {
  const chains = makeChains(vertices, edges);
  const chainOf = new Map(chains.flatMap((chain) => chain.vertices.map((vertex) => [vertex.id, chain])));
  for (const chain of chains) chain.before = new Set();
  for (const chain of chains) chain.after = new Set();
  for (const edge of edges) {
    const [from, to] = [chainOf.get(edge.from), chainOf.get(edge.to)];
    if (!from || !to || from === to) continue;
    from.after.add(to);
    to.before.add(from);
  }
  const parts = connected(chains).map(placePart);
  const size = pack(parts);
  const places = new Map();
  for (const part of parts) {
    for (const chain of part.chains) {
      chain.x += part.x;
      chain.y += part.y;
      chain.vertices.forEach((vertex, index) => {
        places.set(vertex.id, {
          x: chain.x + PAD + Math.floor(index / STACK) * (CARD.width + CARD.gap),
          y: chain.y + PAD + (index % STACK) * (CARD.height + CARD.gap),
          chain,
        });
      });
    }
  }
  return { places, chains, ...size };
}

function makeChains(vertices, edges) {
  const root = new Map(vertices.map((vertex) => [vertex.id, vertex.id]));
  const level = new Map(vertices.map((vertex) => [vertex.id, vertex.level]));
  const find = (id) => {
    while (root.get(id) !== id) id = root.get(id);
    return id;
  };
  for (const { from, to } of edges) {
    if (root.has(from) && root.has(to) && level.get(from) === level.get(to)) root.set(find(to), find(from));
  }
  const chains = new Map();
  for (const vertex of vertices) {
    const key = find(vertex.id);
    if (!chains.has(key)) chains.set(key, { level: vertex.level, vertices: [], x: 0, y: 0 });
    chains.get(key).vertices.push(vertex);
  }
  for (const chain of chains.values()) {
    chain.vertices = inFlowOrder(chain.vertices, edges);
    const stacks = Math.ceil(chain.vertices.length / STACK);
    const high = Math.min(chain.vertices.length, STACK);
    chain.width = stacks * CARD.width + (stacks - 1) * CARD.gap + 2 * PAD;
    chain.height = high * CARD.height + (high - 1) * CARD.gap + 2 * PAD;
  }
  return [...chains.values()];
}

function inFlowOrder(vertices, edges) {
  if (vertices.length < 2) return vertices;
  const inside = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  const inputs = new Map(vertices.map((vertex) => [vertex.id, []]));
  for (const { from, to } of edges) if (inside.has(from) && inside.has(to)) inputs.get(to).push(from);
  const ordered = [];
  const seen = new Set();
  const visit = (id) => {
    if (seen.has(id)) return;
    seen.add(id);
    inputs.get(id).forEach(visit);
    ordered.push(inside.get(id));
  };
  vertices.forEach((vertex) => visit(vertex.id));
  return ordered;
}

function connected(chains) {
  const seen = new Set();
  const parts = [];
  for (const start of chains) {
    if (seen.has(start)) continue;
    const part = [];
    const open = [start];
    seen.add(start);
    while (open.length) {
      const chain = open.pop();
      part.push(chain);
      for (const next of [...chain.before, ...chain.after]) {
        if (!seen.has(next)) {
          seen.add(next);
          open.push(next);
        }
      }
    }
    parts.push(part);
  }
  return parts;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const centre = (chain) => chain.y + chain.height / 2;

function placePart(chains) {
  const levels = [...new Set(chains.map((chain) => chain.level))].sort((a, b) => a - b);
  const columns = levels.map((level) => chains.filter((chain) => chain.level === level));
  orderColumns(columns);
  const tries = chains.length > MANY ? COLUMNS : [COLUMNS[1]];
  const split = tries.map((limit) => columns.map((column) => splitColumn(column, limit))).reduce((a, b) => (scale(b) > scale(a) ? b : a));
  split.flat().forEach(stackUp);
  if (chains.length > MANY) {
    const tallest = Math.max(...split.flat().map(heightOf));
    for (const column of split.flat()) for (const chain of column) chain.y += (tallest - heightOf(column)) / 2;
  } else {
    for (let round = 0; round < 6; round++) {
      const forward = round % 2 === 0;
      for (const column of forward ? split.flat() : split.flat().reverse()) moveTowards(column, forward ? "before" : "after");
    }
  }
  let x = 0;
  for (const level of split) {
    for (const column of level) {
      const width = widthOf(column);
      for (const chain of column) chain.x = x + (width - chain.width) / 2;
      x += width + BETWEEN_COLUMNS;
    }
    x += BETWEEN_LEVELS - BETWEEN_COLUMNS;
  }
  const top = Math.min(...chains.map((chain) => chain.y));
  for (const chain of chains) chain.y -= top;
  return { chains, width: x - BETWEEN_LEVELS, height: Math.max(...chains.map((chain) => chain.y + chain.height)), x: 0, y: 0 };
}

/** Sorts each column by where its neighbours are: a few sweeps to and fro leave few crossings. */
function orderColumns(columns) {
  const index = new Map();
  const number = (column) => column.forEach((chain, at) => index.set(chain, at));
  columns.forEach(number);
  for (let round = 0; round < 8; round++) {
    const forward = round % 2 === 0;
    for (const column of forward ? columns : [...columns].reverse()) {
      const rank = new Map(
        column.map((chain) => {
          const neighbours = [...(forward ? chain.before : chain.after)];
          return [chain, neighbours.length ? mean(neighbours.map((other) => index.get(other))) : index.get(chain)];
        }),
      );
      column.sort((a, b) => rank.get(a) - rank.get(b));
      number(column);
    }
  }
}

const widthOf = (column) => Math.max(...column.map((chain) => chain.width));
const heightOf = (column) => column.reduce((sum, chain) => sum + chain.height + BETWEEN_CHAINS, -BETWEEN_CHAINS);

/** How large a drawing with these columns could be shown. */
function scale(levels) {
  const width = levels.flat().reduce((sum, column) => sum + widthOf(column) + BETWEEN_COLUMNS, 0) + levels.length * (BETWEEN_LEVELS - BETWEEN_COLUMNS);
  return Math.min(SHAPE / width, 1 / Math.max(...levels.flat().map(heightOf)));
}

function splitColumn(column, limit) {
  const pieces = Math.ceil(heightOf(column) / limit);
  const each = Math.ceil(column.length / pieces);
  return Array.from({ length: pieces }, (_, piece) => column.slice(piece * each, (piece + 1) * each)).filter((one) => one.length);
}

function stackUp(column) {
  let y = 0;
  for (const chain of column) {
    chain.y = y;
    y += chain.height + BETWEEN_CHAINS;
  }
}

function moveTowards(column, side) {
  const wanted = column.map((chain) => (chain[side].size ? mean([...chain[side]].map(centre)) : centre(chain)) - chain.height / 2);
  let floor = -Infinity;
  column.forEach((chain, at) => {
    chain.y = Math.max(wanted[at], floor);
    floor = chain.y + chain.height + BETWEEN_CHAINS;
  });
  const drift = mean(column.map((chain, at) => wanted[at] - chain.y));
  for (const chain of column) chain.y += drift;
}

function pack(parts) {
  const area = parts.reduce((sum, part) => sum + (part.width + 60) * (part.height + 40), 0);
  const limit = Math.max(Math.sqrt(area * 2.1), ...parts.map((part) => part.width));
  let [x, y, row, width] = [0, 0, 0, 0];
  for (const part of parts) {
    if (x > 0 && x + part.width > limit) {
      x = 0;
      y += row + 40;
      row = 0;
    }
    part.x = x;
    part.y = y;
    x += part.width + 60;
    row = Math.max(row, part.height);
    width = Math.max(width, part.x + part.width);
  }
  return { width, height: y + row };
}

/** The line of an edge: between levels a curve to the right, within a chain a short one downwards. */
export function edgePath(from, to) {
  if (from.chain === to.chain) {
    if (from.x === to.x && Math.abs(to.y - from.y) <= CARD.height + CARD.gap + 1) {
      const x = from.x + CARD.width / 2;
      return { d: `M${x} ${from.y + CARD.height}V${to.y - 3}`, x, y: (from.y + CARD.height + to.y) / 2 };
    }
    const [x, y1, y2] = [Math.min(from.x, to.x), from.y + CARD.height / 2, to.y + CARD.height / 2];
    return { d: `M${from.x} ${y1}C${x - 26} ${y1} ${x - 26} ${y2} ${to.x - 3} ${y2}`, x: x - 20, y: (y1 + y2) / 2 };
  }
  const [x1, y1, x2, y2] = [from.x + CARD.width, from.y + CARD.height / 2, to.x - 4, to.y + CARD.height / 2];
  const bend = Math.max(46, Math.abs(x2 - x1) / 2);
  return { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, x: (x1 + x2) / 2, y: (y1 + y2) / 2 };
}
