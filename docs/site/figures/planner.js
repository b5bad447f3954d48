// The planner: the ten fastest layouts of a model on a cluster, what they keep and why.
"use strict";

(() => {
  const {ask, html, bytes, count, digits, number, legend, percent, seconds, table} =
      window.workbookTools;
  const isCustom = (state) => state.model === "custom";
  const PARTS = {
    "matrix products": "var(--c-parameters)",
    "attention": "#56b4e9",
    "elementwise work": "var(--c-other)",
    "recomputation": "var(--c-activations)",
    "tensor-parallel exchanges": "var(--c-gradients)",
    "context-parallel exchanges": "#f0e442",
    "exchanges of tokens with experts": "#8f6bb8",
    "messages between stages": "#a6761d",
    "exchanges between replicas": "var(--c-communication)",
    "the optimizer": "var(--c-optimizer)",
    "waiting for the slowest rank": "var(--ink)",
    "the pipeline's bubble": "var(--c-idle)",
  };
  const BYTES = {
    parameters: ["parameters", "var(--c-parameters)"],
    gradients: ["gradients", "var(--c-gradients)"],
    optimizer: ["optimizer states", "var(--c-optimizer)"],
    activations: ["activations", "var(--c-activations)"],
    transient: ["gathered for a moment", "var(--c-communication)"],
    overhead: ["context, buffers, fragments", "var(--c-other)"],
  };
  const PROGRAMS = {
    "11_five_d": "this book",
    megatron: "Megatron-LM",
    nanotron: "nanotron",
    deepspeed: "DeepSpeed"
  };
  const LEAST = 0.001;  // of a step: parts below it are drawn, but not named
  let menu = {models: [], clusters: [], software: []};

  /// A bar of parts, as wide as they are of `whole`; what it shows is said in words too.
  const stack = (parts, whole, words) => html(
      "span", {class: "stack", role: "img", "aria-label": words},
      parts.map(([name, value, colour, shown]) => html("span", {
                  style: `width:${100 * value / whole}%;background:${colour}`,
                  title: `${name}: ${shown}`
                })));

  const timeOf = (layout) => Object.keys(PARTS)
                                 .filter((part) => layout.time[part] > 0)
                                 .map((part) => [part, layout.time[part], PARTS[part]]);

  const rowOf = (layout, i, slowest, shown, choose) => {
    const id = `figure-planner-layout-${i + 1}`;
    const parts = timeOf(layout).map((part) => [...part, seconds(part[1])]);
    const words = parts.filter(([, value]) => value >= LEAST * layout.step_seconds)
                      .map(([name, value]) => `${name} ${percent(value / layout.step_seconds)}`);
    return html(
        "li", {}, html("input", {
          type: "radio",
          name: "figure-planner-layouts",
          id,
          value: i + 1,
          checked: shown === i ? "" : null,
          onchange: () => choose("shown", String(i + 1))
        }),
        html(
            "label",
            { for: id
            },
            html("span", {class: "name"}, layout.layout),
            html(
                "span", {class: "facts"},
                number(`step_${i}`, layout.step_seconds, seconds(layout.step_seconds)),
                " a step · ", number(`mfu_${i}`, layout.mfu, percent(layout.mfu)), " MFU · ",
                number(`memory_${i}`, layout.memory.total, bytes(layout.memory.total)),
                ` · loses most to ${layout.bottleneck}`)),
        stack(parts, slowest, `${seconds(layout.step_seconds)}: ${words.join(", ")}`));
  };

  const memoryOf = (layout, gpu) => {
    const parts = Object.entries(BYTES).map(
        ([kind,
          [name, colour]]) => [name, layout.memory[kind], colour, bytes(layout.memory[kind])]);
    return [
      html("h4", {}, `Its memory, of ${bytes(gpu.memory_bytes)} of each GPU`),
      stack(
          parts, gpu.memory_bytes, parts.map(([name, , , shown]) => `${name} ${shown}`).join(", ")),
      table(
          ["", "bytes"],
          Object.entries(BYTES).map(
              ([kind, [name, colour]]) =>
                  [html(
                       "span", {}, html("span", {class: "swatch", style: `background:${colour}`}),
                       name),
                   number(`bytes_${kind}`, layout.memory[kind], bytes(layout.memory[kind]))]))
    ];
  };

  const timeTable = (layout) =>
      [html("h4", {}, "Its time"),
       table(
           ["", "seconds", "of the step"],
           Object.keys(PARTS)
               .map(
                   (part) =>
                       [html(
                            "span", {},
                            html("span", {class: "swatch", style: `background:${PARTS[part]}`}),
                            part),
                        number(`time_${part}`, layout.time[part], seconds(layout.time[part])),
                        percent(layout.time[part] / layout.step_seconds)])
               .filter((_, i) => layout.time[Object.keys(PARTS)[i]] > 0))];

  const whyOf = (answer) =>
      [html("h4", {}, "Why the first"),
       html(
           "ol", {class: "reasons"}, html("li", {}, answer.steps.fit_in_memory),
           html("li", {}, answer.steps.reach_the_batch), html("li", {}, answer.steps.make_it_fast)),
       html("h4", {}, "Rules of thumb"),
       html(
           "ul", {class: "reasons"},
           answer.recipes.map(
               (rule) => html(
                   "li", {}, html("b", {}, rule.followed ? "followed" : "not followed"),
                   ` · ${rule.source}: ${rule.advice}`))),
  ];

  const changesOf = (answer) =>
      [html("h4", {}, "What the same layout would gain by"),
       table(
           ["change", "speed"],
           answer.what_if.map(
               (one, i) =>
                   [one.change,
                    number(
                        `gain_${i}`, one.gain,
                        `${one.gain < 0 ? "−" : "+"}${percent(Math.abs(one.gain))}`)])),
  ];

  const flagsOf = (answer) =>
      [html("h4", {}, "Flags of the first"),
       Object.entries(PROGRAMS).map(([key, name], i) => {
         const told = answer.export[key];
         const text = typeof told === "string" ? told : JSON.stringify(told, null, 2);
         return html(
             "details", {open: i === 0 ? "" : null}, html("summary", {}, name),
             html(
                 "div", {class: "wide"},
                 html("pre", {tabindex: 0, "aria-label": `Options of ${name}`}, text.trimEnd())));
       }),
  ];

  window.workbookFigures.planner = {
    prepare: async () => {
      menu = await ask("planner", {menu: true});
    },
    controls: [
      {
        name: "model",
        label: "Model",
        value: "llama-70b",
        redraws: true,
        options: () => menu.models
      },
      {name: "layers", label: "Layers", value: 32, min: 1, when: isCustom},
      {name: "hidden", label: "Hidden size", value: 4096, min: 0, step: 64, when: isCustom},
      {name: "heads", label: "Heads", value: 32, min: 1, when: isCustom},
      {name: "kv_heads", label: "Key/value heads", value: 8, min: 1, when: isCustom},
      {name: "ffn", label: "Feed-forward size", value: 14336, min: 0, step: 64, when: isCustom},
      {name: "vocab", label: "Vocabulary", value: 32000, min: 0, step: 1000, when: isCustom},
      {name: "cluster", label: "Cluster", value: "dgx-h100", options: () => menu.clusters},
      {name: "gpus", label: "GPUs", value: 256, min: 0, step: 8},
      {name: "batch", label: "Tokens of a step", value: 4194304, min: 0, step: 1048576},
      {name: "seq", label: "Tokens of a sequence", value: 4096, min: 0, step: 1024},
      {
        name: "precision",
        label: "Precision",
        value: "bf16-mixed-fp32grads",
        options: ["bf16-mixed-fp32grads", "bf16-mixed", "fp32", "fp64"]
      },
      {name: "software", label: "Program", value: "modern", options: () => menu.software},
      {name: "shown", label: "Layout", value: 1, when: () => false},
    ],
    question: (state) => {
      const question = {
        model: state.model,
        cluster: state.cluster,
        precision: state.precision,
        software: state.software
      };
      const counts = ["gpus", "batch", "seq"];
      if (isCustom(state)) counts.push("layers", "hidden", "heads", "kv_heads", "ffn", "vocab");
      for (const name of counts) question[name] = Number(state[name]);
      return question;
    },
    draw: (body, answer, state, more, choose) => {
      const layouts = answer.layouts;
      const chosen = Math.round(Number(state.shown)) - 1;
      const shown = chosen >= 0 && chosen < layouts.length ? chosen : 0;
      const slowest = Math.max(...layouts.map((layout) => layout.step_seconds));
      const focused = body.contains(document.activeElement) ? document.activeElement.id : null;
      const named = Object.keys(PARTS).filter(
          (part) => layouts.some((one) => one.time[part] >= LEAST * one.step_seconds));
      body.replaceChildren(
          html(
              "p", {class: "headline", "aria-live": "polite"},
              number("parameters", answer.parameters, count(answer.parameters)),
              ` parameters on ${answer.gpus.toLocaleString("en-US")} ${answer.gpu.name}: of `,
              number("possible", answer.possible, answer.possible.toLocaleString("en-US")),
              " layouts ",
              number("too_large", answer.too_large, answer.too_large.toLocaleString("en-US")),
              " do not fit. The fastest: ", html("b", {}, layouts[0].layout), ", ",
              seconds(layouts[0].step_seconds), " a step, ",
              number(
                  "tokens_per_second", layouts[0].tokens_per_second,
                  digits(Math.round(layouts[0].tokens_per_second), 4)),
              " tokens a second."),
          legend(named.map((part) => [PARTS[part], part])),
          html(
              "ol", {class: "layouts", "aria-label": "The fastest layouts"},
              layouts.map((layout, i) => rowOf(layout, i, slowest, shown, choose))),
          html("h4", {class: "of"}, `Layout ${shown + 1}: ${layouts[shown].layout}`),
          html(
              "div", {class: "halves"}, html("div", {}, timeTable(layouts[shown])),
              html("div", {}, memoryOf(layouts[shown], answer.gpu))),
          html(
              "div", {class: "halves"}, html("div", {}, whyOf(answer)),
              html("div", {}, changesOf(answer))),
          html("div", {}, flagsOf(answer)));
      if (focused) document.getElementById(focused)?.focus();
    },
  };
})();
