/* Before anything is drawn: unfold's stylesheet knows the dark by a class, which follows the person's choice or the system. */
(() => {
  const page = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => page.classList.toggle("dark", page.dataset.theme === "dark" || (page.dataset.theme !== "light" && system.matches));
  follow();
  system.addEventListener("change", follow);
})();
