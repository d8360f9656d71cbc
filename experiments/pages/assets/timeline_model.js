"use strict";
// The spans of a timeline: tracks that can be searched fast, lines to draw, and words about spans.

const HEADER = 22, BLOCK = 16, STRIP = 3;

/** The spans, sorted by row, lane, band and time, with tracks whose spans begin in order. */
class SpanModel {
  constructor(data, columns, path) {
    Object.assign(this, columns);
    this.data = data;
    this.path = path;
    this.count = columns.row.length;
    const scale = data.axis / 4294967295;
    this.start = Float64Array.from(columns.tick, (tick) => tick * scale);
    this.end = this.start.map((start, i) => start + columns.duration[i]);
    this.tracks = this.tracksOf(Int32Array.from({ length: this.count }, (_, i) => i));
    this.groups = this.groupsOf();
    this.open = new Set(data.rows.length <= BLOCK ? this.groups : []);
  }

  /** Tracks by row and lane of some spans, which are in order. */
  tracksOf(items) {
    const tracks = this.data.rows.map(() => []);
    const same = (i, j) => this.row[i] === this.row[j] && this.lane[i] === this.lane[j] && this.band[i] === this.band[j];
    for (let first = 0; first < items.length;) {
      let last = first + 1;
      while (last < items.length && same(items[first], items[last])) last++;
      const part = items.subarray(first, last);
      const starts = Float64Array.from(part, (i) => this.start[i]);
      const ends = Float64Array.from(part, (i) => this.end[i]);
      for (let k = 1; k < ends.length; k++) ends[k] = Math.max(ends[k], ends[k - 1]);
      const i = part[0];
      tracks[this.row[i]].push({ row: this.row[i], lane: this.lane[i], band: this.band[i], items: part, starts, ends });
      first = last;
    }
    return tracks;
  }

  /** Whether a track is of idle time: its band is 0, and other spans begin with band 1. */
  static isIdle(track) { return track.band === 0; }

  /** The rows of each node, or of each block of many rows. */
  groupsOf() {
    const { rows, nodes } = this.data;
    const count = new Set(nodes).size, byNode = count > 1 && count < rows.length;
    const large = rows.length > 2 * BLOCK;
    const groups = [];
    rows.forEach((_, row) => {
      const key = byNode ? nodes[row] : large ? Math.floor(row / BLOCK) : 0;
      const last = groups.at(-1);
      if (last && last.key === key) last.rows.push(row);
      else groups.push({ key, rows: [row], named: byNode || large });
    });
    for (const group of groups) {
      const [first, last] = [group.rows[0], group.rows.at(-1)].map((row) => rows[row]);
      const range = first === last ? first : `${first} to ${last.replace(/^\D+/, "")}`;
      group.name = byNode && group.key >= 0 ? `node ${group.key}: ${range}` : range;
    }
    return groups;
  }

  /** What is drawn from top to bottom: headers of groups, lanes of rows, strips of closed groups. */
  lines() {
    const lines = [];
    let y = 0;
    for (const group of this.groups) {
      if (group.named) { lines.push({ group, y, height: HEADER }); y += HEADER; }
      const isOpen = this.open.has(group) || !group.named;
      const strip = Math.max(STRIP, Math.min(10, Math.floor(48 / group.rows.length)));
      for (const row of group.rows) {
        if (!isOpen) { lines.push({ row, lane: -1, y, height: strip }); y += strip; continue; }
        const large = this.data.rows.length <= 4 ? 1.35 : 1;
        for (let lane = 0; lane < this.data.lanes.length; lane++) {
          const tracks = this.tracks[row].filter((track) => track.lane === lane);
          if (!tracks.length) continue;
          const bands = Math.max(1, ...tracks.map((track) => track.band));
          const height = Math.round(large * Math.max(lane === Math.max(this.data.main, 0) ? 20 : 14, Math.min(bands, 6) * 7));
          lines.push({ row, lane, bands, y, height, first: lines.at(-1)?.row !== row });
          y += height + 1;
        }
        y += 7;
      }
      y += isOpen ? 4 : 8;
    }
    return { lines, height: y };
  }

  /** The tracks of a line, from the lowest layer to the uppermost. */
  layers(line, tracks = this.tracks) {
    const { main, lanes } = this.data;
    const mine = tracks[line.row];
    if (line.lane >= 0) return mine.filter((track) => track.lane === line.lane);
    const shown = main >= 0 ? mine.filter((track) => lanes[track.lane] !== "messages") : mine.filter((track) => track.lane === 0);
    const depth = (track) => (SpanModel.isIdle(track) ? 0 : track.lane === main ? 2 : 1);
    return shown.toSorted((a, b) => depth(a) - depth(b));
  }

  /** All spans by rank, lane and time. */
  get order() {
    const { row, lane, start } = this;
    this.sorted ??= Int32Array.from(row.keys()).sort((i, j) => row[i] - row[j] || lane[i] - lane[j] || start[i] - start[j]);
    return this.sorted;
  }

  isIdle(i) { return this.band[i] === 0; }

  /** The top and the height of a span within its line. */
  place(line, band) {
    if (line.lane < 0 || band === 0) return [line.y, line.height];
    const height = line.height / Math.min(line.bands, 6);
    return [line.y + ((band - 1) % 6) * height, height];
  }

  /** Seconds of a communication during which the main lane is idle. */
  exposed(i) {
    const idle = this.idleOf(this.row[i]);
    if (!idle) return 0;
    let sum = 0;
    for (let k = firstAbove(idle.ends, this.start[i]); k < idle.items.length && idle.starts[k] < this.end[i]; k++) {
      const j = idle.items[k];
      sum += Math.max(0, Math.min(this.end[i], this.end[j]) - Math.max(this.start[i], this.start[j]));
    }
    return sum;
  }

  /** The track of idle time of the main lane of a row. */
  idleOf(row) {
    return this.tracks[row].find((track) => track.lane === this.data.main && SpanModel.isIdle(track));
  }

  /** Whether a span is a communication beside a main lane. */
  communicates(i) { return this.data.main >= 0 && this.lane[i] !== this.data.main && !this.isIdle(i); }

  title(i) { return this.isIdle(i) ? `idle: ${this.data.causes[this.cause[i]] ?? "waits"}` : this.data.names[this.name[i]]; }

  /** Texts for the box of a span, the longest first. */
  label(i) {
    const name = this.data.names[this.name[i]];
    const peer = this.peer[i] >= 0 ? this.data.peers[this.peer[i]] : "";
    const arrow = this.comes(i) ? "←" : "→";
    const ends = peer ? [`${name} ${arrow} ${peer}`, `${arrow} ${peer}`, `${arrow} ${peer.replace(/^\D+ /, "")}`] : [];
    return [...ends, name, name.replace(/^\S+ /, ""), name.match(/\d+$/)?.[0] ?? ""];
  }

  /** Whether the peer of a span is where its bytes come from. */
  comes(i) { return /receive|merge/.test(this.data.lanes[this.lane[i]]); }

  /** Sentences about a span. */
  words(i) {
    const { rows, lanes, peers, links } = this.data;
    const lines = [this.title(i), `${rows[this.row[i]]}, ${lanes[this.lane[i]]}`];
    lines.push(`starts at ${seconds(this.start[i])}, lasts ${seconds(this.duration[i])}`);
    if (this.members[i] > 1) lines.push(`stands for ${this.members[i]} short spans`);
    if (this.isIdle(i)) return [...lines, this.why(i)];
    const size = this.nbytes[i] > 0 ? bytes(this.nbytes[i]) : "";
    const where = this.link[i] >= 0 ? ` over ${links[this.link[i]]}` : "";
    const whom = this.peer[i] >= 0 ? `${this.comes(i) ? "from" : "to"} ${peers[this.peer[i]]}${where}` : where;
    if (size || whom) lines.push(`${size} ${whom}`.trim());
    if (this.waited[i] > 0) lines.push(`waits ${seconds(this.waited[i])} in queues on its way`);
    if (this.communicates(i) && lanes[this.lane[i]] !== "messages") {
      const open = this.exposed(i);
      lines.push(`exposed ${seconds(open)}, hidden behind computing ${seconds(Math.max(0, this.duration[i] - open))}`);
    }
    if (this.critical[i]) lines.push("on the critical path");
    return lines;
  }

  /** What an idle lane waits for. */
  why(i) {
    const { data } = this, { rows, causes, names, peers, links, main } = data;
    const cause = causes[this.cause[i]];
    const what = this.awaited[i] >= 0 ? names[this.awaited[i]] : "";
    const peer = this.peer[i] >= 0 ? peers[this.peer[i]] : "";
    const link = this.link[i] >= 0 ? links[this.link[i]] : "";
    const itself = peer === rows[this.row[i]];
    const of = [what && `: ${what}`, peer && !itself && ` of ${peer}`, link && ` over ${link}`].filter(Boolean).join("");
    if (cause === "drain") return "nothing is left to do here";
    if (cause === "launch") return "waits until the CPU has launched the work";
    if (cause === "fill") return `waits for its first work${of}`;
    if (cause === "slower peer") return `waits for a computation${of}`;
    if (data.lanes[this.lane[i]] === "queues") return `its message to ${peer} waits for ${link || "merging"}, which serves other ranks: ${what}`;
    if (cause === "contention" && !peer) return `waits behind messages of other ranks: ${what}`;
    if (cause === "contention" && this.lane[i] === main) return `waits for ${link || "merging"}, which serves others: ${what} of ${peer} is in its queue`;
    if (cause === "contention") return `waits for ${link}, behind messages of ${peer}`;
    if (cause === "transfer" && itself && this.lane[i] === main) return `waits until its message has arrived${of}`;
    if (cause === "transfer" && itself) return `waits for ${link || "its link"}, behind messages of its own`;
    return `waits for a message${of}`;
  }

  /** The spans that have all words of a text in their names, in order of time. */
  search(text) {
    const { rows, lanes, kinds, names, peers, links, causes } = this.data;
    const tables = [[rows, this.row], [lanes, this.lane], [kinds, this.kind], [names, this.name], [peers, this.peer], [links, this.link], [causes, this.cause]];
    const words = text.toLowerCase().match(/"[^"]+"|\S+/g) || [];
    const tests = words.map((word) => {
      const plain = word.replaceAll('"', "");
      return tables.map(([table, column]) => [table.map((name) => name.toLowerCase().includes(plain)), column]);
    });
    const matches = [];
    for (let i = 0; i < this.count; i++)
      if (tests.every((test) => test.some(([hit, column]) => column[i] >= 0 && hit[column[i]]))) matches.push(i);
    return words.length ? matches : null;
  }

  /** All spans as text for a table. */
  csv() {
    const { rows, lanes, kinds, names, peers, links, causes } = this.data;
    // A quote in front keeps spreadsheets from reading a name as a formula.
    const plain = (text) => (/^[=+@\t-]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text);
    const cell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = ["rank,lane,start_s,seconds,kind,name,bytes,peer,link,cause,waits_for,queued_s,spans,critical"];
    for (let i = 0; i < this.count; i++)
      lines.push([rows[this.row[i]], lanes[this.lane[i]], this.start[i], this.duration[i], kinds[this.kind[i]],
        names[this.name[i]], this.nbytes[i], peers[this.peer[i]] ?? "", links[this.link[i]] ?? "", causes[this.cause[i]] ?? "",
        names[this.awaited[i]] ?? "", this.waited[i], this.members[i], this.critical[i]].map((value) => cell(plain(String(value)))).join(","));
    return `${lines.join("\n")}\n`;
  }
}
