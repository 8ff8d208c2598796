// Runs axe on the page once it has settled; endless animations are excluded.
async (options) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  await frame(); // scripts that react to the theme
  await frame(); // are notified
  const passing = document.getAnimations().filter((each) => each.effect.getComputedTiming().endTime !== Infinity);
  await Promise.allSettled(passing.map((each) => each.finished));
  const { violations } = await axe.run(document, { ...options, preload: false, resultTypes: ["violations"] });

  // A suggestion list is scrolled by the focused field, which names the active option. axe accepts that only from a combobox, a
  // role that a textarea can't have.
  const field = document.activeElement;
  const isLed = ({ target }) => field.ariaActiveDescendantElement && document.querySelector(target[0]).id === field.getAttribute("aria-controls");
  const counts = (rule) => (node) => rule.id !== "scrollable-region-focusable" || !isLed(node);
  const told = ({ target, html, failureSummary }) => ({ where: target.flat().join(" "), html: html.slice(0, 200), why: failureSummary });
  return violations
    .map((rule) => ({ ...rule, nodes: rule.nodes.filter(counts(rule)) }))
    .filter(({ nodes }) => nodes.length)
    .map(({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.map(told) }));
}
