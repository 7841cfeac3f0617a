/**
 * Small steps on the document. Data enters it only as text: nothing here or elsewhere on the page parses HTML.
 */

/** The element of an id of index.html. */
export function byId(id) {
  return document.getElementById(id);
}

/** A new element with classes and children; strings become text. */
export function make(tag, classes = "", ...children) {
  const element = document.createElement(tag);
  if (classes !== "") element.className = classes;
  element.append(...children);
  return element;
}

/** Sets the text, and touches nothing when it is that already: selections and screen readers are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** A bar of parts, each a share of 0 to 1. */
export function makeTrack(...parts) {
  const fills = parts.map((classes) => make("span", `fill ${classes}`.trim()));
  return { track: make("div", "track", ...fills), fills };
}

/** Through the style object, which a content security policy allows. */
export function setShare(fill, share) {
  const width = `${Math.min(100, Math.max(0, share * 100)).toFixed(2)}%`;
  if (fill.style.width !== width) fill.style.width = width;
}

/**
 * Keeps the children of a list in the order of its items, and the elements of items that stay: focus stays with them.
 * `views` maps keys to what `create` made, an object with an `element`.
 */
export function keepList(parent, views, items, keyOf, create, update) {
  const keys = new Set(items.map(keyOf));
  for (const [key, view] of views) {
    if (keys.has(key)) continue;
    view.element.remove();
    views.delete(key);
  }
  items.forEach((item, index) => {
    const key = keyOf(item);
    let view = views.get(key);
    if (view === undefined) {
      view = create(item);
      views.set(key, view);
    }
    update(view, item);
    const there = parent.children[index];
    if (there !== view.element) parent.insertBefore(view.element, there ?? null);
  });
}
