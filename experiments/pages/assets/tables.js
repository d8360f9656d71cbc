"use strict";
// Tables of a page: a click on a heading sorts, a text above filters.

for (const table of document.querySelectorAll("main table")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];

  const compare = (column, sign) => (a, b) => {
    const [x, y] = [a, b].map((row) => row.cells[column].dataset.key);
    const [p, q] = [x, y].map(Number);
    if (x !== "" && y !== "" && !Number.isNaN(p) && !Number.isNaN(q)) return sign * (p - q);
    if ((x === "") !== (y === "")) return x === "" ? 1 : -1;
    return sign * x.localeCompare(y, undefined, { numeric: true });
  };

  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    button.title = "sort";
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      body.append(...rows.sort(compare(column, descending ? -1 : 1)));
    });
  });

  if (rows.length < 6) continue;
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "filter rows";
  filter.setAttribute("aria-label", "filter rows");
  const count = document.createElement("span");
  count.className = "count";
  const bar = document.createElement("p");
  bar.className = "filter";
  bar.append(filter, count);
  table.parentElement.before(bar);
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
  };
  filter.addEventListener("input", show);
  show();
}
