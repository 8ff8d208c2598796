// Everything on the page that text must never become. Our pages have their own forms, scripts and popovers.
() => {
  const harm = [];
  const told = (why, element) => harm.push(`${why}: ${element.outerHTML.slice(0, 160)}`);
  const ADDRESSES = /^(href|xlink:href|src|srcset|action|formaction|data|poster|background|cite)$/i;
  const FOLLOWED = ["a", "area", "form", "button", "blockquote", "q"]; // on click; others load immediately
  const NEVER = ["iframe", "object", "embed", "base", "frame", "applet", "style", "foreignobject", "animate", "portal", "marquee"];

  function checkAddress(element, tag, name, value) {
    let address;
    try {
      address = new URL(value, document.baseURI);
    } catch {
      return; // leads nowhere
    }
    const loads = !FOLLOWED.includes(tag);
    const isOwn = address.origin === location.origin || (loads && value.startsWith("data:image/"));
    if (!isOwn && !["http:", "https:", "mailto:"].includes(address.protocol)) told("a scheme", element);
    else if (!isOwn && (loads || tag === "form" || name === "formaction")) told("goes elsewhere", element);
  }

  if ("__pwned" in window) harm.push("it ran");
  for (const element of document.querySelectorAll("*")) {
    const tag = element.tagName.toLowerCase();
    for (const { name, value } of element.attributes) {
      if (/^on/i.test(name)) told("a handler", element);
      if (/^(x-|hx-|@|:)/.test(name) && value.includes("__hurt")) told("a directive", element);
      if (ADDRESSES.test(name)) checkAddress(element, tag, name.toLowerCase(), value);
    }
    if (NEVER.includes(tag)) told("an element", element);
    if (tag === "script" && !element.src && !/json/.test(element.type)) told("a script", element);
    if (tag === "meta" && element.httpEquiv) told("an order", element);
  }
  const texts = ".markdown, .message > .text, .thinking .text, .tool pre, .tool dd, .story .text, pre.json";
  const inside = "form, img, video, audio, svg:not(.sign), input:not([type=checkbox][disabled]), [style], [id], [name]";
  for (const text of document.querySelectorAll(texts)) {
    for (const element of text.querySelectorAll(inside)) if (!element.closest(".editor")) told("in a text", element);
  }
  return harm;
}
