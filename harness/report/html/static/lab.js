// Predict, then step: without this script, everything is shown at once.
"use strict";
{
  const all = (root, selector) => [...root.querySelectorAll(selector)];
  const lessons = all(document, "article.lesson");
  const words = JSON.parse(document.getElementById("words").textContent);
  for (const frames of all(document, ".frames")) frames.remove();  // copies, which would be drawn again at each step
  const filled = (text, values) => text.replace(/{(\w+)}/g, (_, name) => values[name]);

  // ----- What is remembered: in this browser only -----

  const KEY = "breaklab";
  let memory = { events: [] };
  try { memory = JSON.parse(localStorage.getItem(KEY)) || memory; } catch { /* nothing is remembered */ }
  const remember = (event) => {
    memory.events.push({ time: new Date().toISOString(), ...event });
    try { localStorage.setItem(KEY, JSON.stringify(memory)); } catch { /* as above */ }
  };
  const remembered = (page, probe, question) => memory.events.find((event) =>
    event.kind === "prediction" && event.page === page && event.probe === probe && event.question === question);

  // ----- Predictions -----

  // The numbers in a text such as `[3, 1/2]`, to three significant digits; null for any other text.
  const numbers = (text) => {
    const parts = text.replace(/[[\]()]/g, " ").split(/[\s,]+/).filter((part) => part);
    const read = parts.map((part) => part.split("/").map((each) => (each ? Number(each) : NaN)).reduce((one, other) => one / other));
    return read.length && read.every(Number.isFinite) ? read.map((number) => Number(number.toPrecision(3))) : null;
  };
  const same = (typed, answer) => {
    const plain = (text) => text.replace(/\s+/g, "").toLowerCase();
    return plain(typed) === plain(answer) || (numbers(typed) !== null && `${numbers(typed)}` === `${numbers(answer)}`);
  };
  // What to type instead, if this cannot be an answer; empty otherwise.
  const remedy = (typed, answer) => {
    if (/^(nan|-?inf)$/i.test(typed.trim()) || numbers(answer) === null || numbers(typed) !== null) return "";
    return numbers(answer).length === 1 ? words.number : words.numbers;
  };
  const question_of = (field) => field.dataset.question
    ?? (field.dataset.kind === "question" ? field.querySelector("legend").textContent.trim() : "");

  const settle = (lesson, field, typed, isNew) => {
    const { answer, probe } = field.dataset;
    const right = same(typed, answer);
    field.classList.add("done");
    field.dataset.right = right;
    for (const input of all(field, "input, button")) input.disabled = true;
    for (const choice of all(field, ".choice")) {
      const value = choice.firstElementChild.value;
      if (value === typed) choice.firstElementChild.checked = true;
      choice.classList.toggle("truth", value === answer);
      choice.classList.toggle("miss", value === typed && !right);
    }
    const details = field.querySelector(".answer");
    details.open = true;
    for (const mistake of all(details, "[data-typed]")) mistake.hidden = !same(typed, mistake.dataset.typed);
    if (!details.querySelector(".mark")) {
      const mark = document.createElement("b");
      mark.className = "mark";
      mark.textContent = `${right ? words.right : words.wrong}: `;
      details.querySelector("p").prepend(mark);
    }
    if (isNew) {
      remember({ kind: "prediction", page: lesson.id, probe, loss: null, predicted: typed, actual: answer, right, question: question_of(field) });
    }
    score(lesson);
  };

  const score = (lesson) => {
    const fields = all(lesson, "fieldset"), done = fields.filter((field) => field.classList.contains("done"));
    const right = done.filter((field) => field.dataset.right === "true").length;
    lesson.querySelector(".score").textContent = done.length ? filled(words.score, { right, total: done.length }) : "";
    if (done.length === fields.length) reveal(lesson);
  };

  const reveal = (lesson) => {
    if (!lesson.classList.contains("open")) {
      lesson.classList.add("open");
      lesson.querySelector(".show-all").hidden = true;
      if (!memory.events.some((event) => event.kind === "finished" && event.page === lesson.id)) {
        remember({ kind: "finished", page: lesson.id });
      }
      mark_done();
    }
  };

  const mark_done = () => {
    const finished = new Set(memory.events.filter((event) => event.kind === "finished").map((event) => event.page));
    for (const place of all(document, "[data-done]")) place.textContent = finished.has(place.dataset.done) ? ` ✓ ${words.done}` : "";
    sum_up();
  };

  const sum_up = () => {
    const summary = document.getElementById("summary");
    if (!summary) return;
    const outcomes = memory.events.filter((event) => event.kind === "prediction" && event.question === "");
    summary.hidden = outcomes.length === 0;
    for (const cell of all(summary, "td")) {
      const { predicted, actual } = cell.dataset;
      cell.textContent = outcomes.filter((event) => event.predicted === predicted && event.actual === actual).length || "·";
    }
  };

  // ----- The two graphs, step by step -----

  class Stage {
    constructor(lesson, element) {
      this.lesson = lesson; this.element = element; this.probe = element.dataset.probe;
      this.total = Number(element.dataset.steps); this.forward = Number(element.dataset.forward);
      this.parts = Number(element.dataset.parts); this.step = 0;
      this.veiled = this.parts >= 0;
      this.slider = element.querySelector("input[type=range]");
      element.querySelector(".back").onclick = () => this.go(this.step - 1);
      element.querySelector(".next").onclick = () => this.go(this.step + 1);
      this.slider.oninput = () => this.go(Number(this.slider.value));
      this.pair = element.querySelector(".pair");
      this.pair.querySelector(".swap").onclick = () => this.swap(!this.pair.classList.contains("swapped"));
      if (this.veiled) this.ask();
      this.after();
      this.draw();
    }
    ask() {
      this.element.classList.add("picking");
      this.element.querySelector(".reveal").onclick = () => this.unveil(null);
      for (const part of all(this.element, "[data-edge], [data-node]")) {
        part.setAttribute("tabindex", "0");
        part.setAttribute("role", "button");
        part.setAttribute("aria-label", part.querySelector("title, .name").textContent);
        part.onclick = () => this.unveil(part);
        part.onkeydown = (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); this.unveil(part); }
        };
      }
    }
    swap(broken) {  // on a narrow screen, one of the two engines is shown
      const button = this.pair.querySelector(".swap");
      this.pair.classList.toggle("swapped", broken);
      button.textContent = broken ? button.dataset.clean : button.dataset.broken;
    }
    unveil(part) {
      if (!this.veiled) return;
      this.swap(true);
      this.veiled = false;
      this.element.classList.remove("picking");
      const mark = this.element.dataset.mark, node = mark.split(".")[0];
      const picked = part && (part.dataset.edge || part.dataset.node);
      const right = picked === mark || picked === node;
      if (part) {
        part.classList.add("picked");
        this.element.querySelector(".verdict").textContent = right ? words.here : words.other;
      }
      for (const place of all(this.element, `.broken [data-edge="${mark}"], .broken [data-node="${mark}"]`)) place.classList.add("here");
      for (const place of all(this.element, "[data-edge], [data-node]")) { place.removeAttribute("tabindex"); place.removeAttribute("role"); }
      this.element.querySelector(".task").hidden = true;
      this.after();
      this.go(Math.max(this.step, this.parts + 1));
    }
    after() { for (const part of all(this.element, ".after")) part.hidden = this.veiled; }
    go(step) {
      this.step = Math.max(0, Math.min(this.total, step));
      this.draw();
      place(this.lesson, this);
    }
    draw() {
      const last = { clean: this.step, broken: this.veiled ? Math.min(this.step, this.parts) : this.step };
      for (const side of ["clean", "broken"]) {
        for (const group of all(this.element, `.side.${side} .step`)) {
          const at = Number(group.dataset.step);
          group.style.display = at <= last[side] ? "" : "none";
          group.classList.toggle("new", at === last[side]);
        }
        this.follow(side);
        for (const line of all(this.element, `.told .${side} li`)) line.classList.toggle("now", Number(line.dataset.step) === this.step && this.step <= last[side]);
      }
      this.slider.value = this.step;
      this.element.querySelector(".back").disabled = this.step === 0;
      this.element.querySelector(".next").disabled = this.step === this.total;
      const phase = this.step > this.forward ? words.gradients : words.values;
      this.element.querySelector("output").textContent = `${filled(words.step, { n: this.step, total: this.total })} · ${phase}`;
    }
    follow(side) {  // a large graph is scrolled to what the step adds
      const pane = this.element.querySelector(`.side.${side} .pane`), added = pane && pane.querySelector(".step.new");
      if (!added) return;
      const [seen, box] = [pane.getBoundingClientRect(), added.getBoundingClientRect()];
      pane.scrollBy(box.left + box.width / 2 - seen.left - seen.width / 2, box.top + box.height / 2 - seen.top - seen.height / 2);
    }
  }

  const stages = new Map();
  const choose = (lesson, probe) => {
    for (const stage of stages.get(lesson)) stage.element.hidden = stage.probe !== probe;
    for (const tab of all(lesson, ".tabs button")) {
      const chosen = tab.dataset.probe === probe;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
    }
    lesson.dataset.probe = probe;
  };
  const stage_of = (lesson) => (stages.get(lesson) || []).find((stage) => stage.probe === lesson.dataset.probe);

  // ----- The address: #page&probe=add-inside&step=4; in a site, the page is the name of the file -----

  const in_site = document.querySelector("link[rel=stylesheet]") !== null;
  const place = (lesson, stage) => {
    const parts = [...(in_site ? [] : [lesson.id]), `probe=${encodeURIComponent(stage.probe)}`, `step=${stage.step}`];
    try { history.replaceState(null, "", `#${parts.join("&")}`); } catch { /* in a frame */ }
  };
  const address = () => {
    const parts = location.hash.slice(1).split("&"), named = new URLSearchParams(parts.filter((part) => part.includes("=")).join("&"));
    return [parts[0].includes("=") ? "" : decodeURIComponent(parts[0]), named.get("probe"), named.get("step")];
  };

  // A page is prepared when it is first shown: a file may have hundreds.
  const prepared = new Set();
  const prepare = (lesson) => {
    if (prepared.has(lesson)) return;
    prepared.add(lesson);
    stages.set(lesson, all(lesson, ".stage").map((element) => new Stage(lesson, element)));
    for (const tab of all(lesson, ".tabs button")) {
      tab.onclick = () => { choose(lesson, tab.dataset.probe); place(lesson, stage_of(lesson)); };
    }
    if (stages.get(lesson).length) choose(lesson, stages.get(lesson)[0].probe);
    const fields = all(lesson, "fieldset");
    lesson.querySelector(".show-all").onclick = () => reveal(lesson);
    for (const field of fields) {
      // Arrow keys check what they reach; it counts on Enter, on Space, or when the focus leaves.
      let moving = false;
      const choose_now = () => {
        const input = field.querySelector("input:checked");
        if (input && !field.classList.contains("done")) settle(lesson, field, input.value, true);
      };
      for (const input of all(field, "input[type=radio]")) {
        input.onchange = () => { if (!moving) choose_now(); };
        input.onkeydown = (event) => {
          moving = event.key.startsWith("Arrow");
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); input.checked = true; choose_now(); }
        };
        input.onkeyup = () => { moving = false; };
      }
      field.addEventListener("focusout", (event) => { if (event.relatedTarget && !field.contains(event.relatedTarget)) choose_now(); });
      const typed = field.querySelector("input[type=text]");
      if (typed) {
        const help = document.createElement("small");
        help.className = "remedy";
        help.setAttribute("role", "status");
        typed.parentElement.append(help);
        const answer = () => {
          help.textContent = typed.value.trim() && remedy(typed.value, field.dataset.answer);
          if (typed.value.trim() && !help.textContent) settle(lesson, field, typed.value, true);
        };
        field.querySelector("button").onclick = answer;
        typed.onkeydown = (event) => { if (event.key === "Enter") { event.preventDefault(); answer(); } };
      }
      const before = remembered(lesson.id, field.dataset.probe, question_of(field));
      if (before) settle(lesson, field, before.predicted, false);
    }
  };

  const show = (event) => {
    const [id, probe, step] = address();
    if (event && id === "main") return;  // skipped to the content of what is shown
    const lesson = lessons.find((each) => each.id === id) || (lessons.length === 1 ? lessons[0] : null);
    const index = document.getElementById("index"), summary = document.getElementById("summary");
    if (index) index.hidden = lesson !== null;
    for (const each of lessons) { each.hidden = each !== lesson; each.classList.toggle("shown", each === lesson); }
    const where = document.getElementById("where");
    const title = lesson && lesson.querySelector("h1");
    if (where) { where.textContent = title ? title.textContent : ""; where.lang = title ? title.lang : ""; }
    if (event) {  // a screen reader and the keyboard go on from the heading
      const shown = lesson || (id === "summary" && !summary.hidden ? summary : index), heading = shown.querySelector("h1, h2");
      heading.tabIndex = -1;
      heading.focus();
    }
    if (!lesson) return;
    prepare(lesson);
    const known = stages.get(lesson).map((stage) => stage.probe);
    if (known.includes(probe)) {
      reveal(lesson);
      choose(lesson, probe);
      if (/^\d+$/.test(step)) { const stage = stage_of(lesson); stage.step = Math.min(stage.total, Number(step)); stage.draw(); }
      stage_of(lesson).element.scrollIntoView();
    } else {
      scrollTo(0, 0);
    }
  };

  // ----- Begin -----

  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input, textarea")) return;
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const tab = event.target.closest(".tabs button");
    if (tab) {
      const tabs = all(tab.parentElement, "button"), next = tabs[(tabs.indexOf(tab) + move + tabs.length) % tabs.length];
      next.click(); next.focus();
      return;
    }
    const lesson = lessons.find((each) => !each.hidden), stage = lesson && lesson.classList.contains("open") && stage_of(lesson);
    if (stage) { event.preventDefault(); stage.go(stage.step + move); }
  });
  const search = document.getElementById("search");
  if (search) search.oninput = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter((word) => word), found = new Set();
    for (const item of all(document, ".pages li")) {  // a page may be in several lists
      item.hidden = !wanted.every((word) => item.dataset.words.includes(word)) || (wanted.length && found.has(item.dataset.words));
      found.add(item.dataset.words);
    }
    for (const group of all(document, ".group")) {
      group.hidden = !group.querySelector(".pages li:not([hidden])");
      if (group.matches("details")) group.open = wanted.length > 0;
    }
  };
  const save = document.getElementById("export");
  if (save) save.onclick = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify({ schema: 1, ...memory }, null, 1)], { type: "application/json" }));
    link.download = "breaklab-progress.json";
    link.click();
  };
  for (const link of all(document, "a.language")) link.onclick = () => { link.hash = location.hash; };  // the same place
  mark_done();
  addEventListener("hashchange", show);
  show();
}
