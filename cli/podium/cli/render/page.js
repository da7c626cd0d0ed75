// The page reads well without this; with it, findings can be filtered and the table of groups sorted.
"use strict";
(() => {
  const bar = document.querySelector(".filter");
  if (bar) {
    const box = bar.querySelector("#filter");
    const boxes = [...bar.querySelectorAll("input[type=checkbox]")];
    const rules = [...document.querySelectorAll(".rule")].map((element) => ({
      element,
      name: element.querySelector("summary").textContent.toLowerCase(),
      findings: [...element.querySelectorAll(".finding")].map((finding) => ({
        element: finding,
        text: finding.textContent.toLowerCase(),
      })),
    }));
    const total = rules.reduce((sum, rule) => sum + rule.findings.length, 0);
    const apply = () => {
      const wanted = box.value.trim().toLowerCase();
      const severities = new Set(boxes.filter((b) => b.checked).map((b) => b.value));
      let shown = 0;
      for (const rule of rules) {
        const named = rule.name.includes(wanted);
        let inRule = 0;
        for (const { element, text } of rule.findings) {
          const show = severities.has(element.dataset.severity) && (named || text.includes(wanted));
          element.hidden = !show;
          inRule += show;
        }
        rule.element.hidden = inRule === 0;
        if (wanted && inRule) rule.element.open = true;
        shown += inRule;
      }
      bar.querySelector("output").value = `${shown.toLocaleString("en")} of ${total.toLocaleString("en")} shown`;
    };
    bar.addEventListener("input", apply);
    bar.hidden = false;
    apply();
  }

  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent;
    const number = Number(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  };
  for (const table of document.querySelectorAll(".sortable table")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const way = head.ariaSort === "descending" ? 1 : -1;
        for (const other of heads) other.ariaSort = null;
        head.ariaSort = way === 1 ? "ascending" : "descending";
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => {
          const [x, y] = [value(a, column), value(b, column)];
          return way * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  // Paper has the findings of closed rules too: older browsers need them opened for it.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll(".rule:not([open])")];
    for (const element of closed) element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const element of closed) element.open = false;
  });
})();
