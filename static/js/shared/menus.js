/** Menus made of <details class="menu-holder">: one open at a time, closed by Escape or a click outside. */

const findOpenMenus = () => document.querySelectorAll(".menu-holder[open]");

document.addEventListener("click", ({ target }) => {
  for (const menu of findOpenMenus()) if (!menu.contains(target)) menu.open = false;
});

document.addEventListener(
  "keydown",
  (event) => {
    const menu = event.target.closest?.(".menu-holder[open]");
    if (!menu) return;
    if (event.key === "Escape") {
      event.stopPropagation(); // Escape should not also stop a run
      menu.open = false;
      menu.querySelector("summary").focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      moveFocus(menu, event.key === "ArrowDown" ? 1 : -1);
    }
  },
  true,
);

/** Close a menu when Tab leaves it. Not on `focusin`: scripts that move the focus should not close it. */
document.addEventListener("keyup", ({ key, target }) => {
  if (key === "Tab") for (const menu of findOpenMenus()) if (!menu.contains(target)) menu.open = false;
});

function moveFocus(menu, offset) {
  const items = [...menu.querySelectorAll(".menu :is(a, button)")];
  const index = items.indexOf(document.activeElement);
  items[index < 0 && offset < 0 ? items.length - 1 : (index + offset + items.length) % items.length]?.focus();
}
