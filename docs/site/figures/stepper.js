// A step, rank by rank: what `--step-through` tells, shown deed by deed.
"use strict";

window.workbookSteps = {};  // layout -> base64 of the deflated step; scripts of assets/steps set it

(() => {
  const {html, svg, number, drawing, widthOf, legend, bytes, digits, loadScript, inflated} =
      window.workbookTools;
  const OWN = "own";
  const COLOURS = {
    tp: "#009e73",
    cp: "#d55e00",
    ep: "#cc79a7",
    pp: "#e69f00",
    dp: "#0072b2",
    world: "#56b4e9",
    work: "var(--c-other)",
    idle: "var(--c-idle)"
  };
  const OTHER = "#f0e442";
  /// A product of axes has the colour of its first: "dp*cp".
  const colourOfGroup = (group) => COLOURS[group.split("*")[0]] ?? OTHER;
  const colourOf = (deed) => !deed ? COLOURS.idle :
      deed.works                   ? COLOURS.work :
                                     colourOfGroup(deed.group);
  const MANY = 4;  // ranks, from which on their cards are narrow
  let own = null;

  const namesOf = () => JSON.parse(document.getElementById("figure-stepper").dataset.layouts);

  const stepOf = async (layout) => {
    if (layout === OWN) {
      if (own) return own;
      throw new Error("No file has been opened: choose one, or another layout.");
    }
    if (!namesOf().some(([name]) => name === layout))
      throw new Error(`No layout is called '${layout}': choose one of the list.`);
    if (!window.workbookSteps[layout]) await loadScript(`assets/steps/${layout}.js`);
    return JSON.parse(new TextDecoder().decode(await inflated(window.workbookSteps[layout])));
  };

  /// A file of --step-through-json, or an Error that says why it is none.
  const read = async (file) => {
    let step = null;
    try {
      step = JSON.parse(await file.text());
    } catch {
    }
    if (!Array.isArray(step?.ranks) || !Array.isArray(step?.rounds))
      throw new Error(`${
          file.name} is not what --step-through --step-through-json prints: write that into a file, and open it.`);
    return {...step, codes: [], title: file.name, about: "Your own.", command: ""};
  };

  // What is true at a round

  const deedOf = (step, round, rank) => {
    const index = round > 0 ? step.rounds[round - 1][rank] : null;
    return index === null || index === undefined ? null : step.ranks[rank].deeds[index];
  };

  /// The last deed that a rank has done by then: it has that part's tensors.
  const lastOf = (step, round, rank) => {
    for (let r = round; r > 0; r -= 1)
      if (deedOf(step, r, rank)) return deedOf(step, r, rank);
    return null;
  };

  const sentBy = (step, round, rank) => {
    const sent = new Map();
    for (let r = 1; r <= round; r += 1) {
      const deed = deedOf(step, r, rank);
      if (deed?.sent_bytes) sent.set(deed.group, (sent.get(deed.group) ?? 0) + deed.sent_bytes);
    }
    return sent;
  };

  const travels = (step, round) =>
      step.ranks.some((_, rank) => deedOf(step, round, rank)?.sent_bytes > 0);

  const wordsOf = (deed, names = true) => {
    if (!deed) return "waits";
    if (deed.works) return `computes ${deed.works.join("; ")}`;
    if (deed.exchange)
      return `${deed.exchange} in ${deed.group}${
          names ? ` with ranks ${deed.members.join(", ")}` :
                  ""}: ${deed.label}; sends ${bytes(deed.sent_bytes)}`;
    return "to" in deed ? `sends ${bytes(deed.bytes)} to rank ${deed.to}` :
                          `has received ${bytes(deed.bytes)} from rank ${deed.from}`;
  };

  const placeOf = (story) =>
      Object.entries(story.place).map(([axis, position]) => `${axis} ${position}`).join(", ");

  const runs = (ranges) => ranges.map(([begin, end]) => `${begin} to ${end - 1}`).join(" and ");

  /// Which blocks and experts, where not all ranks have the same.
  const shareOf = (step, story) => {
    const blocks = (one) => one.layers.map(([begin, end]) => `${begin} to ${end - 1}`).join(", ");
    const experts = (one) =>
        [...new Set(one.weights.map(({name}) => name.match(/experts\.(\d+)\./)?.[1])
                        .filter((expert) => expert !== undefined))]
            .join(", ");
    return [["blocks", blocks], ["experts", experts]]
        .filter(([_, share]) => step.ranks.some((one) => share(one) !== share(step.ranks[0])))
        .map(([name, share]) => `, ${name} ${share(story)}`)
        .join("");
  };

  // Pictures

  const BOX = 58, GAP = 12;
  /// A whole tensor as a frame, and what of it a rank has as filled rectangles.
  const boxOf = (x, name, facts, filled, colour) => svg(
      "g", {}, svg("title", {}, `${name}: ${facts}`),
      svg("rect", {x, y: 16, width: BOX, height: BOX, class: "axis whole"}),
      filled.map(([left, top, width, height]) => svg("rect", {
                   x: x + left * BOX,
                   y: 16 + top * BOX,
                   width: Math.max(width * BOX, 1.5),
                   height: Math.max(height * BOX, 1.5),
                   fill: colour
                 })),
      svg("text", {x: x + BOX / 2, y: 11, "text-anchor": "middle"}, clipped(name)),
      svg("text", {x: x + BOX / 2, y: BOX + 29, "text-anchor": "middle", class: "quiet"}, facts));

  const clipped = (name) => name.length > 12 ? `${name.slice(0, 11)}…` : name;
  const short = (name) => name.replace(/\.weight$/, "").split(".").pop();

  const activation = (step, part, tensor) => {
    const rows = step.global_batch * step.seq;
    const [first, last] = part.sequences;
    const filled = [];
    for (let sequence = first; sequence < last; sequence += 1)
      for (const [begin, end] of tensor.rows)
        filled.push([
          tensor.columns[0] / tensor.width, (sequence * step.seq + begin) / rows,
          (tensor.columns[1] - tensor.columns[0]) / tensor.width, (end - begin) / rows
        ]);
    const features = tensor.shape.slice(2).reduce((product, one) => product * one, 1);
    return [tensor.name, `${tensor.shape[1]}×${features}`, filled, "#0072b2"];
  };

  const weight = (story, name) => {
    const one = story.weights.find((each) => each.name === name);
    if (!one) return null;
    const LINE = [9, 10];  // a vector is a line in the middle
    const [rows, columns] = one.held.length > 1 ? one.held : [LINE, one.held[0]];
    const [height, width] = one.whole.length > 1 ? one.whole : [19, one.whole[0]];
    return [
      short(name), one.held.map(([begin, end]) => end - begin).join("×"), [[
        columns[0] / width, rows[0] / height, (columns[1] - columns[0]) / width,
        (rows[1] - rows[0]) / height
      ]],
      "#d55e00"
    ];
  };

  const tensorsOf = (step, rank, deed) => {
    const story = step.ranks[rank];
    const part = deed && "part" in deed ? story.parts[deed.part] : null;
    if (!part)
      return html(
          "p", {class: "quiet-line"}, deed ? "Between the parts of the model." : "Nothing yet.");
    const shown = [
      ...part.inputs.map((one) => activation(step, part, one)),
      ...part.weights.map((one) => weight(story, one)).filter(Boolean),
      ...part.outputs.map((one) => activation(step, part, one)),
    ];
    const width = shown.length * (BOX + GAP) + 4;
    const rows = part.inputs[0]?.rows ?? part.outputs[0]?.rows ?? [];
    return [
      drawing(
          width, BOX + 36, `What rank ${story.rank} has in ${part.name}, ${part.pass}`,
          shown.map((one, i) => boxOf(GAP / 2 + i * (BOX + GAP), ...one))),
      html(
          "p", {class: "quiet-line"},
          `Sequence ${part.sequences[0]}${
              part.sequences[1] > part.sequences[0] + 1 ? ` to ${part.sequences[1] - 1}` :
                                                          ""}, tokens ${runs(rows)}.`)
    ];
  };

  /// Who is in which exchange, and whose message goes where.
  const wires = (step, round, room) => {
    const count = step.ranks.length;
    const pitch = Math.min(110, Math.max(44, (room - 20) / count));
    const x = (rank) => 10 + pitch * (rank + 0.5);
    const drawn = [];
    const seen = new Set();
    for (let rank = 0; rank < count; rank += 1) {
      const deed = deedOf(step, round, rank);
      if (deed?.exchange) {
        const key = `${deed.group} ${deed.members.join(" ")}`;
        if (seen.has(key)) continue;
        seen.add(key);
        const y = 58 + 9 * (seen.size - 1);
        drawn.push(svg("path", {
          d: deed.members.map((one) => `M${x(one)} 40V${y}`).join("") +
              `M${x(deed.members[0])} ${y}H${x(deed.members.at(-1))}`,
          stroke: colourOf(deed),
          "stroke-width": 3,
          fill: "none"
        }));
      } else if (deed && "to" in deed) {
        const middle = (x(rank) + x(deed.to)) / 2;
        drawn.push(svg("path", {
          d: `M${x(rank)} 40Q${middle} ${78 + 12 * (rank < deed.to)} ${x(deed.to)} 42`,
          stroke: colourOf(deed),
          "stroke-width": 3,
          fill: "none",
          "marker-end": "url(#step-arrow)"
        }));
      }
    }
    const label = travels(step, round) ? "What travels between ranks" : "Nothing travels";
    return drawing(
        20 + pitch * count, 96, label,
        svg("defs", {},
            svg("marker", {
              id: "step-arrow",
              viewBox: "0 0 8 8",
              refX: 6,
              refY: 4,
              markerWidth: 4,
              markerHeight: 4,
              orient: "auto"
            },
                svg("path", {d: "M0 0L8 4L0 8z", fill: "var(--ink)"}))),
        step.ranks.map(
            (story, rank) =>
                svg("g", {}, svg("circle", {
                      cx: x(rank),
                      cy: 24,
                      r: 15,
                      fill: "var(--raised)",
                      stroke: colourOf(deedOf(step, round, rank)),
                      "stroke-width": 3
                    }),
                    svg("text", {x: x(rank), y: 29, "text-anchor": "middle"}, story.rank))),
        drawn);
  };

  /// All rounds: a row for each rank.
  const score = (step, room) => {
    const LEFT = 52, ROW = 12;
    const count = step.rounds.length;
    const cell = Math.max(3, (room - LEFT - 6) / count);
    const height = step.ranks.length * (ROW + 3) + 6;
    const marker = svg("rect", {y: 0, width: cell, height, class: "limit", fill: "none"});
    const picture = drawing(
        LEFT + count * cell + 6, height, `All ${count} rounds, a row for each rank`,
        step.ranks.map(
            (story, rank) =>
                svg("g", {},
                    svg("text", {x: LEFT - 6, y: 12 + rank * (ROW + 3), "text-anchor": "end"},
                        `rank ${story.rank}`),
                    step.rounds.map((round, r) => round[rank] === null ? null : svg("rect", {
                                      x: LEFT + r * cell,
                                      y: 2 + rank * (ROW + 3),
                                      width: Math.max(cell - 0.6, 1),
                                      height: ROW,
                                      fill: colourOf(story.deeds[round[rank]])
                                    })))),
        marker);
    return {
      picture,
      mark: (round) => {
        marker.setAttribute("x", LEFT + Math.max(0, round - 1) * cell);
        marker.setAttribute("visibility", round ? "visible" : "hidden");
      }
    };
  };

  let spoils = false;  // the reader looks at solutions
  const codeOf = (step, round) => {
    const numbers = new Set(step.ranks.map((_, rank) => deedOf(step, round, rank)?.code)
                                .filter((code) => code !== undefined));
    if (!numbers.size)
      return [html(
          "p", {class: "quiet-line"},
          round ? "The trainer's own housekeeping." : "Nothing has run yet.")];
    return [...numbers].map((code) => {
      const one = step.codes[code];
      const lines = html(
          "div", {class: "wide"},
          html(
              "pre", {tabindex: 0, class: "step-code"},
              one.text.map(
                  (line, i) => html(
                      "span", {class: one.first + i === one.line ? "counts" : null},
                      `${String(one.first + i).padStart(4)}  ${line}\n`))));
      const place = `${one.file}:${one.line}`;
      const link = one.href ? html("a", {href: one.href}, place) : place;
      // An exercise's solution is for after the reader's own.
      return one.file.startsWith("solutions/") ?
          html(
              "details", {
                open: spoils ? "" : null,
                ontoggle: (event) => {
                  spoils = event.target.open;
                }
              },
              html("summary", {}, `An exercise's solution does it: ${place}`), lines, link) :
          html("div", {}, html("p", {class: "quiet-line"}, link), lines);
    });
  };

  const card = (step, round, rank, most) => {
    const story = step.ranks[rank];
    const now = deedOf(step, round, rank);
    const last = now ?? lastOf(step, round, rank);
    const sent = sentBy(step, round, rank);
    const total = [...sent.values()].reduce((sum, one) => sum + one, 0);
    const held = story.weights.reduce(
        (sum, one) => sum + one.held.reduce((product, [a, b]) => product * (b - a), 1), 0);
    const updated = story.weights.reduce((sum, one) => sum + one.updated, 0);
    return html(
        "section", {
          class: "rank-card",
          style: `border-top-color:${colourOf(now)}`,
          "aria-label": `Rank ${story.rank}`
        },
        html("h4", {}, `Rank ${story.rank}`, html("span", {}, placeOf(story) + shareOf(step, story))),
        html(
            "p", {},
            now ? `${now.phase}${"part" in now ? `, ${story.parts[now.part].name}` : ""}: ` : "",
            html("b", {}, wordsOf(now))),
        tensorsOf(step, rank, last),
        html(
            "div", {class: "stack", role: "img", "aria-label": `Sent so far: ${bytes(total)}`},
            [...sent].map(([group, value]) => html("span", {
                            style: `width:${100 * value / most}%;background:${colourOfGroup(group)}`
                          }))),
        html(
            "p", {class: "quiet-line"},
            "Sent so far: ", number(`sent_${story.rank}`, total, bytes(total)), ". Memory in use: ",
            number(`in_use_${story.rank}`, last?.in_use ?? 0, bytes(last?.in_use ?? 0)),
            `. Computes with ${digits(held / 1e6, 4)} million weights, updates ${
                digits(updated / 1e6, 4)} million.`));
  };

  const headline = (step, round) => {
    if (round === 0) return `${step.title}: before the step. ${step.about}`;
    const groups = new Map();
    step.ranks.forEach((story, rank) => {
      const words = wordsOf(deedOf(step, round, rank), false);
      groups.set(words, [...(groups.get(words) ?? []), story.rank]);
    });
    const told = [...groups]
                     .filter(([words]) => words !== "waits")
                     .map(
                         ([words, ranks]) => `${
                             ranks.length === 1 ? `Rank ${ranks[0]}` :
                                 ranks.length === step.ranks.length ?
                                                  "All ranks" :
                                                  `Ranks ${ranks.join(", ")}`}: ${words}`);
    return `Round ${round} of ${step.rounds.length}. ${told.join(". ")}.`;
  };

  // The figure

  window.workbookFigures.stepper = {
    controls: [
      {
        name: "layout",
        label: "Layout",
        value: "sp",
        options: () => [...namesOf(), ...(own ? [[OWN, own.title]] : [])],
        then: () => ({step: "0"}),
        redraws: true
      },
      {name: "step", label: "Round", value: 0, when: () => false},
    ],
    question: (state) => ({layout: state.layout, file: state.layout === OWN ? own?.title : null}),
    answer: (question) => stepOf(question.layout),
    draw: (body, step, state, _, changed) => {
      const last = step.rounds.length;
      const most = Math.max(
          1,
          ...step.ranks.map(
              (_, rank) => [...sentBy(step, last, rank).values()].reduce((a, b) => a + b, 0)));
      const words = html("p", {class: "headline", "aria-live": "polite"});
      const slider = html("input", {
        type: "range",
        min: 0,
        max: last,
        value: 0,
        "aria-label": "Round",
        oninput: () => show(Number(slider.value))
      });
      const button = (name, to) =>
          html("button", {type: "button", onclick: () => show(to())}, name);
      const next = (from, by) => {
        let round = from + by;
        while (round > 0 && round < last && !travels(step, round)) round += by;
        return round;
      };
      let round = 0;
      const all = score(step, widthOf(body));
      const wire = html("div");
      const cards = html("div", {class: "rank-cards"});
      const code = html("div", {class: "step-codes"});
      const problem = html("p", {class: "problem", role: "alert", hidden: ""});
      const file = html("input", {
        type: "file",
        accept: ".json,application/json",
        onchange: async () => {
          try {
            own = await read(file.files[0]);
            await changed("layout", OWN);
          } catch (error) {
            problem.textContent = error.message;
            problem.hidden = false;
          }
        }
      });
      const show = (to) => {
        round = Math.max(0, Math.min(last, to));
        slider.value = round;
        slider.setAttribute("aria-valuetext", `round ${round} of ${last}`);
        state.step = String(round);
        words.textContent = headline(step, round);
        wire.replaceChildren(wires(step, round, widthOf(body)));
        cards.replaceChildren(...step.ranks.map((_, rank) => card(step, round, rank, most)));
        code.replaceChildren(...codeOf(step, round));
        all.mark(round);
        const address =
            `#figure-stepper?${new URLSearchParams({layout: state.layout, step: round})}`;
        const link = body.parentElement?.querySelector(".state-link");
        if (link) link.href = address;
        if (location.hash.startsWith("#figure-stepper")) history.replaceState(null, "", address);
      };
      const groups = [...new Set(step.ranks.flatMap(
          (story) => story.deeds.filter((deed) => !deed.works).map((deed) => deed.group)))];
      cards.classList.toggle("many", step.ranks.length > MANY);
      body.replaceChildren(
          html(
              "div", {class: "transport"}, button("First", () => 0),
              button("Back", () => round - 1), button("Next", () => round + 1),
              button("Next exchange", () => next(round, 1)), slider),
          words, wire, all.picture, legend([
            [COLOURS.work, "computes"],
            ...groups.map((group) => [colourOfGroup(group), `exchanges in ${group}`])
          ]),
          cards,
          html(
              "p", {class: "quiet-line"},
              "Frames are whole tensors: activations with the tokens of the global batch from top to bottom and features from left to right, matrices as they are stored, [out, in]. Filled, blue and orange: what the rank has."),
          html("h4", {class: "of"}, "The code"), code,
          html("h4", {class: "of"}, "The same on your machine"),
          html(
              "div", {class: "wide"}, html("pre", {tabindex: 0, class: "command"}, step.command || "--step-through")),
          html(
              "p", {},
              html(
                  "label", {},
                  "Open another layout, a file that the command with --step-through-json has printed: ",
                  file)),
          problem);
      show(Number(state.step) || 0);
    },
  };
})();
