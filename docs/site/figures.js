// Figures that compute: the programs' C++ as WebAssembly, asked in JSON, drawn as SVG.
//
// A page holds <section class="figure" data-figure="NAME" data-module="MODULE"> around a picture
// that stands there without scripts. Its state is in the address:
// #figure-NAME?ranks=8&algorithm=ring.
"use strict";

window.workbookModules =
    {};  // name -> base64 of the deflated module; scripts of assets/modules set it
window.workbookFigures = {};  // name -> { controls, question, draw }, without a module { answer } too; the figures' scripts set it

(() => {
  const up = window.workbookUp;
  const compiled = new Map();
  const instances = new Map();

  const loadScript = (src) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = src;
    script.onload = resolve;
    script.onerror = () =>
        reject(new Error(`${src} is not there: the site was built without its figures`));
    document.head.append(script);
  });

  const inflated = async (packed) => {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).arrayBuffer();
  };

  const compile = (name) => {
    if (!compiled.has(name)) {
      compiled.set(name, (async () => {
                     await loadScript(`${up}assets/modules/${name}.js`);
                     return WebAssembly.compile(await inflated(window.workbookModules[name]));
                   })());
    }
    return compiled.get(name);
  };

  /// What a module may ask of its system: nothing is there, and that is said in zeros.
  const importsOf = (module, memory) => {
    const imports = {};
    for (const {module: from, name} of WebAssembly.Module.imports(module)) {
      imports[from] ??= {};
      imports[from][name] = (...args) => {
        const view = new DataView(memory().buffer);
        if (name === "environ_sizes_get" || name === "args_sizes_get") {
          view.setUint32(args[0], 0, true);
          view.setUint32(args[1], 0, true);
        }
        if (name === "proc_exit") throw new Error("the module has ended");
        return 0;
      };
    }
    imports.page = {
      report_error: (at) => {
        const bytes = new Uint8Array(memory().buffer, at);
        throw new Error(new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0))));
      },
    };
    return imports;
  };

  const instanceOf = async (name) => {
    if (!instances.has(name)) {
      const module = await compile(name);
      let memory = null;
      const instance = await WebAssembly.instantiate(module, importsOf(module, () => memory));
      memory = instance.exports.memory;
      instance.exports._initialize?.();
      instances.set(name, instance.exports);
    }
    return instances.get(name);
  };

  /// The answer of a module; an Error with the program's own message.
  const ask = async (name, question) => {
    const exports = await instanceOf(name);
    const text = new TextEncoder().encode(JSON.stringify(question));
    try {
      const at = exports.question_buffer(text.length);
      new Uint8Array(exports.memory.buffer, at, text.length).set(text);
      const answer = exports.answer_question();
      const bytes = new Uint8Array(exports.memory.buffer, answer, exports.answer_size());
      return JSON.parse(new TextDecoder().decode(bytes));
    } catch (error) {
      instances.delete(name);  // its stack and its heap are of a call that never came back
      throw error;
    }
  };

  // Drawing ---------------------------------------------------------------------------------------

  const build = (make) => (tag, attributes = {}, ...children) => {
    const node = make(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on"))
        node.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false)
        node.setAttribute(key, value);
    }
    node.append(...children.flat(Infinity)
                    .filter((child) => child !== null && child !== undefined)
                    .map((child) => child instanceof Node ? child : String(child)));
    return node;
  };
  const html = build((tag) => document.createElement(tag));
  const svg = build((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));

  const digits = (value, most) => value.toLocaleString("en-US", {maximumSignificantDigits: most});
  const scaled = (value, units, step) => {
    let unit = 0;
    while (Math.abs(value) >= step && unit < units.length - 1) {
      value /= step;
      unit += 1;
    }
    return `${digits(value, 4)} ${units[unit]}`.trim();
  };
  const tools = {
    html,
    svg,
    ask,
    loadScript: (path) => loadScript(`${up}${path}`),
    inflated,
    digits,
    bytes: (value) => scaled(value, ["B", "kB", "MB", "GB", "TB", "PB", "EB"], 1000),
    count: (value) => scaled(value, ["", "thousand", "million", "billion", "trillion"], 1000),
    seconds: (value) => value === 0 ? "0 s" :
        value >= 1                  ? `${digits(value, 4)} s` :
                         value >= 1e-3 ? `${digits(value * 1e3, 4)} ms` :
                                         `${digits(value * 1e6, 4)} µs`,
    percent: (value) => `${digits(value * 100, 3)} %`,
    /// A number on the page that says what it is, to readers and to tests.
    number: (name, value, shown) => html("b", {"data-name": name, "data-value": value}, shown),
    /// The width of a drawing that needs no scrolling, where that leaves it readable.
    widthOf: (body) => Math.max(480, body.clientWidth),
    legend: (entries) => html(
                         "ul", {class: "legend"},
                         entries.map(
                             ([colour, name]) => html(
                                 "li", {}, html("span", {class: "swatch", style: `background:${colour}`}), name))),
                     /// A drawing, which scrolls where the screen is narrow.
                     drawing: (width, height, label, ...children) => html(
                         "div", {
                           class: "drawing",
                           tabindex: 0,
                           role: "group",
                           "aria-label": `${label} (a drawing; scrolls sideways)`
        },
                         svg("svg",
                             {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label},
                             ...children)),
                     table: (head, rows) => html(
                         "div", {class: "wide"},
                         html(
                             "table", {},
                             html("thead", {}, html("tr", {}, head.map((cell) => html("th", {scope: "col"}, cell)))),
                             html(
                                 "tbody", {},
                                 rows.map(
                                     (row) => html(
                                         "tr", {},
                                         row.map(
                                             (cell, i) => html(i ? "td" : "th", i ? {} : {scope: "row"}, cell))))))),
                   };
  window.workbookTools = tools;

  // A figure's state ------------------------------------------------------------------------------

  const stateOfAddress = (name) => {
    const [anchor, query] = decodeURI(location.hash.slice(1)).split("?");
    return anchor === `figure-${name}` && query ? Object.fromEntries(new URLSearchParams(query)) :
                                                  {};
  };

  const control = (section, spec, state, changed) => {
    const id = `${section.id}-${spec.name}`;
    const options = typeof spec.options === "function" ? spec.options(state) : spec.options;
    let input;
    if (options) {
      input = html("select", {id}, options.map((option) => {
        const [value, shown] = Array.isArray(option) ? option : [option, option];
        return html("option", {value}, shown);
      }));
    } else {
      input = html("input", {
        id,
        type: spec.type ?? "number",
        min: spec.min,
        max: spec.max,
        step: spec.step ?? (spec.type === "checkbox" ? null : 1)
      });
    }
    if (spec.type === "checkbox")
      input.checked = state[spec.name] === "1";
    else
      input.value = state[spec.name];
    input.addEventListener("input", () => {
      const value = spec.type === "checkbox" ? (input.checked ? "1" : "0") : input.value;
      if (value !== "") changed(spec.name, value);
    });
    return html("label", { for: id, class: spec.type === "checkbox" ? "check" : null }, html("span", {}, spec.label), input);
  };

  const start = async (section) => {
      const name = section.dataset.figure;
      const figure = window.workbookFigures[name];
      const controls =
          html("form", {class: "controls", onsubmit: (event) => event.preventDefault()});
      const problem = html("p", {class: "problem", role: "alert", hidden: ""});
      const body = html("div", {class: "figure-body"});
      const link = html("a", {class: "state-link", href: `#figure-${name}`}, "Link to this state");
      const reset = html("button", {type: "button", class: "quiet"}, "Reset");
      let state = {};
      let asked = 0;
      let answered = "";

      const defaults = () =>
          Object.fromEntries(figure.controls.map((spec) => [spec.name, String(spec.value)]));
      const drawControls = () => {
        const focused = document.activeElement?.id;
        const shown = figure.controls.filter((spec) => !spec.when || spec.when(state));
        controls.replaceChildren(...shown.map((spec) => control(section, spec, state, changed)));
        if (focused && section.contains(document.getElementById(focused)))
          document.getElementById(focused).focus();
      };
      const update = async () => {
        const ticket = ++asked;
        const query = new URLSearchParams(
                          Object.entries(state).filter(([key, value]) => defaults()[key] !== value))
                          .toString();
        link.href = `#figure-${name}${query ? `?${query}` : ""}`;
        try {
          const question = figure.question(state);
          const text = JSON.stringify(question);
          const known = section.workbookAnswer && text === answered;
          const answer = known ? section.workbookAnswer :
              figure.answer    ? await figure.answer(question) :
                                 await ask(section.dataset.module, question);
          if (ticket !== asked) return;
          answered = text;
          problem.hidden = true;
          body.classList.remove("stale");
          section.workbookAnswer = answer;
          figure.draw(body, answer, state, (more) => {
            state = {...state, ...more};
            update();
          }, changed);
          section.dataset.state = "ready";
        } catch (error) {
          if (ticket !== asked) return;
          problem.textContent = error.message;
          problem.hidden = false;
          body.classList.add("stale");
          section.workbookAnswer = null;
          section.dataset.state = "problem";
        }
        section.dataset.asked = String(ticket);
      };
      const changed = (key, value) => {
        state[key] = value;
        const spec = figure.controls.find((one) => one.name === key);
        if (spec.then) Object.assign(state, spec.then(state));
        if (spec.redraws) drawControls();
        history.replaceState(null, "", `#figure-${name}?${new URLSearchParams(state)}`);
        return update();
      };
      section.workbookSet = (more) => {
        state = {...defaults(), ...more};
        drawControls();
        return update();
      };

      reset.addEventListener("click", () => {
        history.replaceState(null, "", `#figure-${name}`);
        section.workbookSet({});
      });
      window.addEventListener("hashchange", () => {
        if (location.hash.startsWith(`#figure-${name}`)) section.workbookSet(stateOfAddress(name));
      });
      if (figure.prepare) await figure.prepare();
      section.querySelector(".fallback")?.remove();
      section.append(controls, problem, body, html("p", {class: "figure-foot"}, link, reset));
      await section.workbookSet(stateOfAddress(name));
  };

  const begin = (section) => {
      if (section.dataset.state) return;
      section.dataset.state = "loading";
      start(section).catch((error) => {
        section.dataset.state = "problem";
        section.append(html("p", {class: "problem", role: "alert"}, error.message));
      });
  };
  document.addEventListener("DOMContentLoaded", () => {
      const sections = [...document.querySelectorAll("section.figure[data-figure]")];
      const seen = new IntersectionObserver((entries) => {
        for (const entry of entries)
          if (entry.isIntersecting) begin(entry.target);
      }, {rootMargin: "400px"});
      sections.forEach((section) => seen.observe(section));
      const addressed =
          sections.find((section) => location.hash.slice(1).split("?")[0] === section.id);
      if (addressed) {
        begin(addressed);
        addressed.scrollIntoView();
      }
  });
})();
