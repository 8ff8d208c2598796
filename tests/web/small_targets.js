// Visible controls that are less than 44 px wide or high where a finger would tap; links inside a sentence are excluded.
() => {
  const reach = (target, x, y, dx, dy) => {
    let length = 0;
    while (length < 44 && target.contains(document.elementFromPoint(x + dx * (length + 1), y + dy * (length + 1)))) length += 1;
    return length;
  };
  const small = [];
  const targets = "a[href], button, summary, select, textarea, input:not([type=hidden]), [role=menuitem], [role=option]";
  for (const target of document.querySelectorAll(targets)) {
    const seen = target.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    if (!seen || target.disabled || target.closest("[inert]")) continue;
    if (target.matches(".markdown :is(p, li, td) a, .skip")) continue;
    target.scrollIntoView({ block: "center", inline: "center" });
    const box = target.getBoundingClientRect();
    if (!box.width || box.right <= 0 || box.left >= innerWidth) continue;
    if (box.width >= 43.5 && box.height >= 43.5) continue;
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    if (!target.contains(document.elementFromPoint(x, y))) continue; // under a sheet
    const wide = reach(target, x, y, -1, 0) + reach(target, x, y, 1, 0) + 1;
    const high = reach(target, x, y, 0, -1) + reach(target, x, y, 0, 1) + 1;
    if (wide < 43.5 || high < 43.5) small.push(`${target.outerHTML.replace(/\s+/g, " ").slice(0, 110)}: ${wide} × ${high}`);
  }
  return [...new Set(small)];
}
