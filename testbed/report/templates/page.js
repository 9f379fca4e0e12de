// What a mark of a figure says, beside the pointer, the finger, or the mark that the arrow keys are at.
const tip = document.createElement("div");
tip.id = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
document.body.append(tip);
for (const title of document.querySelectorAll("figure svg title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
function markAt(x, y) {
  for (const off of [0, 5, 10])
    for (const [dx, dy] of [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]]) {
      const mark = document.elementFromPoint(x + dx * off, y + dy * off)?.closest("[data-tip]");
      if (mark) return mark;
    }
}
function show(mark, x, y) {
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(8, Math.min(x + 12, room)) + "px";
  tip.style.top = (y > tip.offsetHeight + 20 ? y - tip.offsetHeight - 12 : y + 20) + "px";
}
for (const kind of ["pointerdown", "pointermove"])
  addEventListener(kind, (event) => {
    const inFigure = event.target.closest?.("figure");
    show(inFigure && markAt(event.clientX, event.clientY), event.clientX, event.clientY);
  });
// A box that has more to its right fades out there.
const fade = (box) => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
const fadeAll = () => document.querySelectorAll(".scroll").forEach(fade);
for (const box of document.querySelectorAll(".scroll")) box.addEventListener("scroll", () => fade(box), { passive: true });
addEventListener("resize", fadeAll);
fadeAll();
addEventListener("scroll", () => show(), { capture: true, passive: true });
addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const figure = event.target.closest?.("figure");
  if (event.key === "Escape" || !step || !figure) return show();
  const marks = [...figure.querySelectorAll("[data-tip]")];
  if (!marks.length) return;
  event.preventDefault();
  const at = Number(figure.dataset.at ?? (step > 0 ? -1 : 0));
  figure.dataset.at = (at + step + marks.length) % marks.length;
  const mark = marks[figure.dataset.at];
  mark.scrollIntoView({ block: "nearest", inline: "center" });
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const box = mark.getBoundingClientRect();
    show(mark, box.left + box.width / 2, box.top);
  }));
});
