// What every page does: the search, the contents, and the book's tree on small screens.
"use strict";

(() => {
  const up = window.workbookUp;
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  const MOST = 12;
  let entries = null;  // [page, anchor, page's title, section's title, text, kind]
  let waiting = null;

  const loadIndex = () => {
    if (!waiting) {
      waiting = new Promise((resolve) => {
        const script = document.createElement("script");
        script.src = `${up}assets/search_index.js`;
        script.onload = () => {
          entries = window.workbookSearch.map(
              (entry) => ({
                href: `${up}${entry[0]}${entry[1] ? `#${entry[1]}` : ""}`,
                page: entry[2],
                title: entry[3],
                text: entry[4],
                lower: `${entry[3]} ${entry[2]} ${entry[4]}`.toLowerCase(),
                head: entry[3].toLowerCase(),
              }));
          resolve();
        };
        document.head.append(script);
      });
    }
    return waiting;
  };

  const score = (entry, words) => {
    let sum = 0;
    for (const word of words) {
      const inHead = entry.head.indexOf(word);
      const inText = entry.lower.indexOf(word);
      if (inText < 0) return 0;
      const begins = inHead === 0 || (inHead > 0 && /[^a-z0-9]/.test(entry.head[inHead - 1]));
      sum += inHead === 0 ? 12 : begins ? 9 : inHead > 0 ? 3 : 1;
      if (entry.head === word) sum += 10;
      sum += Math.min(entry.lower.split(word).length - 2, 5) * 0.3;
    }
    return sum;
  };

  const escapeHtml = (text) =>
      text.replace(/[&<>"]/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;"})[c]);
  const marked = (text, words) => {
    let html = escapeHtml(text);
    for (const word of words) {
      const safe = escapeHtml(word).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      html = html.replace(new RegExp(`(${safe})(?![^<]*>)`, "gi"), "<mark>$1</mark>");
    }
    return html;
  };
  const excerpt = (entry, words) => {
    const at = Math.max(0, entry.text.toLowerCase().indexOf(words[0]) - 50);
    return (at > 0 ? "… " : "") + entry.text.slice(at, at + 150);
  };

  const close = () => {
    found.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const show = async () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return close();
    await loadIndex();
    const best = entries.map((entry) => [score(entry, words), entry])
                     .filter((pair) => pair[0] > 0)
                     .sort((a, b) => b[0] - a[0])
                     .slice(0, MOST);
    found.innerHTML = best.length === 0 ?
        "<p>Nothing found.</p>" :
        best.map(
                ([, entry], i) =>
                    `<a role="option" id="found-${i}" aria-selected="${i === 0}" href="${
                        entry.href}">${marked(entry.title, words)}` +
                    `<small>${escapeHtml(entry.page)}</small><small>${
                        marked(excerpt(entry, words), words)}</small></a>`)
            .join("");
    found.hidden = false;
    input.setAttribute("aria-expanded", "true");
  };
  const move = (step) => {
    const options = [...found.querySelectorAll("a")];
    if (!options.length) return;
    const now = options.findIndex((option) => option.getAttribute("aria-selected") === "true");
    const next = (now + step + options.length) % options.length;
    options.forEach((option, i) => option.setAttribute("aria-selected", String(i === next)));
    options[next].scrollIntoView({block: "nearest"});
    input.setAttribute("aria-activedescendant", options[next].id);
  };

  input.addEventListener("focus", loadIndex);
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      const option = found.querySelector("[aria-selected=\"true\"]");
      if (option) {
        close();
        location.href = option.href;
      }
    } else if (event.key === "Escape") {
      close();
      input.blur();
    }
  });
  found.addEventListener("click", close);
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select, textarea")) {
      event.preventDefault();
      input.focus();
    }
  });

  // The tree is open beside the text, and closed above it.
  const tree = document.querySelector("nav.book details");
  const narrow = window.matchMedia("(max-width: 60rem)");
  const fold = () => {
    if (tree) tree.open = !narrow.matches;
  };
  fold();
  narrow.addEventListener("change", fold);

  // Where the reader is, in the contents of the page.
  const links = new Map(
      [...document.querySelectorAll("nav.page-contents a")].map((a) => [a.hash.slice(1), a]));
  const headings = [...document.querySelectorAll("main h2[id], main h3[id]")];
  const mark = () => {
    let here = null;
    for (const heading of headings)
      if (heading.getBoundingClientRect().top < 120) here = heading;
    links.forEach((a, id) => a.classList.toggle("here", here !== null && id === here.id));
  };
  if (links.size) {
    let asked = false;
    document.addEventListener("scroll", () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        mark();
      });
    }, {passive: true});
    mark();
  }

  // What is folded opens when a link leads into it.
  const open = () => {
    const target = location.hash.length > 1 &&
        document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = target; node; node = node.parentElement)
      if (node.tagName === "DETAILS") node.open = true;
    if (target && target.closest("details")) target.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  open();
})();
