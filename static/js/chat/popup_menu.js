/** A menu opened by a button: arrow keys, Home, End and letters move the focus; Escape and Tab close the menu. */

const GAP_PIXELS = 4;

export function createPopupMenu(menu) {
  let opener = null;
  let pressedWhileOpen = null;

  const getItems = () => [...menu.querySelectorAll("[role=menuitem]")].filter((item) => !item.hidden);

  // Pressing the opener closes the menu before the click arrives; that click must not reopen it.
  document.addEventListener("pointerdown", () => (pressedWhileOpen = menu.matches(":popover-open") ? opener : null), true);
  menu.addEventListener("toggle", ({ newState }) => {
    opener?.setAttribute("aria-expanded", String(newState === "open"));
    if (newState === "closed") opener = null;
  });
  menu.addEventListener("click", ({ target }) => target.closest("[role=menuitem]") && close());
  menu.addEventListener("keydown", (event) => {
    const all = getItems();
    const index = all.indexOf(document.activeElement);
    const targetIndex = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: -1 }[event.key];
    if (targetIndex !== undefined) all.at(targetIndex % all.length).focus();
    else if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key.length === 1 && event.key !== " ") focusByLetter(all, index, event.key.toLowerCase());
    else return;
    event.preventDefault();
    event.stopPropagation(); // Escape closes the menu and should not stop a run as well
  });

  function focusByLetter(all, index, key) {
    [...all.slice(index + 1), ...all].find((item) => item.textContent.trim().toLowerCase().startsWith(key))?.focus();
  }

  /** Open below the button, or above it if there is no room. On phones the stylesheet places the menu at the bottom. */
  function open(button) {
    opener = button;
    menu.showPopover();
    const { left, right, top, bottom } = button.getBoundingClientRect();
    const { width, height } = menu.getBoundingClientRect();
    const pageWidth = document.documentElement.clientWidth;
    const fitsBelow = bottom + GAP_PIXELS + height < innerHeight || top < height;
    menu.style.left = `${Math.max(GAP_PIXELS, left + width + GAP_PIXELS < pageWidth ? left : right - width)}px`;
    menu.style.top = `${fitsBelow ? bottom + GAP_PIXELS : top - GAP_PIXELS - height}px`;
    getItems()[0]?.focus();
  }

  function close() {
    const previousOpener = opener;
    if (menu.matches(":popover-open")) menu.hidePopover();
    if (previousOpener?.isConnected) previousOpener.focus();
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
