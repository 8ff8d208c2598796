// What axe finds on the page as it stands when it has come to rest; what turns or breathes for ever is left out.
async (options) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  await frame(); // scripts that follow the colours
  await frame(); // have heard of them
  const passing = document.getAnimations().filter((each) => each.effect.getComputedTiming().endTime !== Infinity);
  await Promise.allSettled(passing.map((each) => each.finished));
  const { violations } = await axe.run(document, { ...options, preload: false, resultTypes: ["violations"] });

  // A list of suggestions is scrolled by the field that has the focus and names the active one. axe believes that of a
  // combobox only, which a textarea may not be.
  const field = document.activeElement;
  const isLed = ({ target }) => field.ariaActiveDescendantElement && document.querySelector(target[0]).id === field.getAttribute("aria-controls");
  const counts = (rule) => (node) => rule.id !== "scrollable-region-focusable" || !isLed(node);
  const told = ({ target, html, failureSummary }) => ({ where: target.flat().join(" "), html: html.slice(0, 200), why: failureSummary });
  return violations
    .map((rule) => ({ ...rule, nodes: rule.nodes.filter(counts(rule)) }))
    .filter(({ nodes }) => nodes.length)
    .map(({ id, impact, help, nodes }) => ({ id, impact, help, nodes: nodes.map(told) }));
}
