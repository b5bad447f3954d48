// The memory of a training step: parameters, gradients, optimizer states and activations.
"use strict";

(() => {
  const {ask, html, svg, bytes, count, number, legend, drawing, widthOf, table} =
      window.workbookTools;
  const isCustom = (state) => state.model === "custom";
  const KINDS = ["parameters", "gradients", "optimizer", "activations"];
  const NAMES = {
    parameters: "parameters",
    gradients: "gradients",
    optimizer: "optimizer states",
    activations: "activations, at their peak"
  };
  const GPU = 80e9;
  let models = [];

  window.workbookFigures.memory = {
    prepare: async () => {
      models = (await ask("memory", {menu: true})).models;
    },
    controls: [
      {name: "model", label: "Model", value: "llama-8b", redraws: true, options: () => models},
      {name: "layers", label: "Layers", value: 32, min: 1, when: isCustom},
      {name: "hidden", label: "Hidden size", value: 4096, min: 1, step: 64, when: isCustom},
      {name: "heads", label: "Heads", value: 32, min: 1, when: isCustom},
      {name: "kv_heads", label: "Key/value heads", value: 8, min: 1, when: isCustom},
      {name: "ffn", label: "Feed-forward size", value: 14336, min: 1, step: 64, when: isCustom},
      {name: "vocab", label: "Vocabulary", value: 32000, min: 1, step: 1000, when: isCustom},
      {name: "seq", label: "Tokens per sequence", value: 4096, min: 1, step: 512},
      {name: "micro_batch", label: "Sequences per micro-batch", value: 1, min: 1},
      {
        name: "precision",
        label: "Precision",
        value: "bf16-mixed",
        options: ["bf16-mixed", "bf16-mixed-fp32grads", "fp32", "fp64"]
      },
      {
        name: "recompute",
        label: "Recomputation",
        value: "none",
        redraws: true,
        options: ["none", "selective", "full"],
        then: (state) => state.recompute === "full" ? {} : {recompute_every: "1"}
      },
      {
        name: "recompute_every",
        label: "Blocks per group",
        value: 1,
        min: 1,
        when: (state) => state.recompute === "full"
      },
    ],
    question: (state) => {
      const question = {model: state.model, precision: state.precision, recompute: state.recompute};
      const counts = ["seq", "micro_batch", "recompute_every"];
      if (isCustom(state)) counts.push("layers", "hidden", "heads", "kv_heads", "ffn", "vocab");
      for (const name of counts) question[name] = Number(state[name]);
      return question;
    },
    draw: (body, answer) => {
      const total = answer.bytes.total;
      const WIDTH = widthOf(body), LEFT = 8, BAR = WIDTH - 2 * LEFT;
      const scale = BAR / Math.max(total, GPU) * 0.98;
      let x = LEFT;
      const parts = KINDS.map((kind) => {
        const width = answer.bytes[kind] * scale;
        const part =
            svg("g", {},
                svg("rect", {x, y: 26, width, height: 54, fill: `var(--c-${kind})`},
                    svg("title", {}, `${NAMES[kind]}: ${bytes(answer.bytes[kind])}`)),
                width > 62 ? svg("text", {
                  x: x + width / 2,
                  y: 58,
                  "text-anchor": "middle",
                  class: kind === "gradients" || kind === "optimizer" ? "on-light" : "on"
                },
                                 bytes(answer.bytes[kind])) :
                             null);
        x += width;
        return part;
      });
      const limit = LEFT + GPU * scale;
      const label = `${bytes(total)} in total: ${
          KINDS.map((kind) => `${NAMES[kind]} ${bytes(answer.bytes[kind])}`).join(", ")}`;
      const gpus = answer.min_80gb_gpus;
      body.replaceChildren(
          html(
              "p", {class: "headline", "aria-live": "polite"},
              number("parameters_count", answer.parameters, count(answer.parameters)),
              " parameters need ", number("total", total, bytes(total)),
              gpus === 1 ? ": one GPU of 80 GB holds that." :
                           [
                             ": at least ", number("gpus", gpus, gpus.toLocaleString("en-US")),
                             " GPUs of 80 GB, if nothing were wasted."
                           ]),
          drawing(
              WIDTH, 110, label, parts,
              svg("path", {d: `M${limit} 18V26M${limit} 80V90`, class: "limit"}),
              svg("text",
                  {x: Math.min(limit, WIDTH - 40), y: 104, "text-anchor": "middle", class: "quiet"},
                  "80 GB"),
              svg("text", {x: LEFT, y: 16, class: "quiet"},
                  "One micro-batch on one device, nothing sharded")),
          legend(KINDS.map((kind) => [`var(--c-${kind})`, NAMES[kind]])), table(["", "bytes", ""], [
            ...KINDS.map(
                (kind) =>
                    [NAMES[kind], number(kind, answer.bytes[kind], bytes(answer.bytes[kind])),
                     html("span", {}, `${Math.round(100 * answer.bytes[kind] / total)} %`)]),
            [
              "kept by one layer",
              number(
                  "per_layer", answer.activation_bytes.per_layer,
                  bytes(answer.activation_bytes.per_layer)),
              ""
            ],
            [
              "kept by all layers",
              number(
                  "kept_by_layers", answer.activation_bytes.kept_by_layers,
                  bytes(answer.activation_bytes.kept_by_layers)),
              ""
            ],
          ]));
    },
  };
})();
