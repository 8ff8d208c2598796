/** A menu that opens at a button: arrows, Home, End and first letters move in it, Escape and Tab leave it. */

const GAP = 4;

export function popup(menu) {
  let opener = null;
  let pressedWhileOpen = null;

  const items = () => [...menu.querySelectorAll("[role=menuitem]")].filter((item) => !item.hidden);

  // Pressing the opener closes the menu before the click arrives, which must not open it again.
  document.addEventListener("pointerdown", () => (pressedWhileOpen = menu.matches(":popover-open") ? opener : null), true);
  menu.addEventListener("toggle", ({ newState }) => {
    opener?.setAttribute("aria-expanded", String(newState === "open"));
    if (newState === "closed") opener = null;
  });
  menu.addEventListener("click", ({ target }) => target.closest("[role=menuitem]") && close());
  menu.addEventListener("keydown", (event) => {
    const all = items();
    const place = all.indexOf(document.activeElement);
    const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) all.at(to % all.length).focus();
    else if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key.length === 1 && event.key !== " ") letter(all, place, event.key.toLowerCase());
    else return;
    event.preventDefault();
    event.stopPropagation(); // Escape closes the menu, and does not also stop a run
  });

  function letter(all, place, key) {
    [...all.slice(place + 1), ...all].find((item) => item.textContent.trim().toLowerCase().startsWith(key))?.focus();
  }

  /** Below the button, or above where there is no room; on a phone the stylesheet puts it at the lower edge. */
  function open(button) {
    opener = button;
    menu.showPopover();
    const { left, right, top, bottom } = button.getBoundingClientRect();
    const { width, height } = menu.getBoundingClientRect();
    const wide = document.documentElement.clientWidth;
    const below = bottom + GAP + height < innerHeight || top < height;
    menu.style.left = `${Math.max(GAP, left + width + GAP < wide ? left : right - width)}px`;
    menu.style.top = `${below ? bottom + GAP : top - GAP - height}px`;
    items()[0]?.focus();
  }

  function close() {
    const from = opener;
    if (menu.matches(":popover-open")) menu.hidePopover();
    if (from?.isConnected) from.focus();
  }

  return {
    open,
    close,
    toggle(button) {
      if (pressedWhileOpen !== button) open(button);
      pressedWhileOpen = null;
    },
  };
}
