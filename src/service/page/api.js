/**
 * The HTTP interface as a page: Swagger UI over `openapi.json`, in the scheme of the system.
 *
 * A key that is entered is not kept. What Swagger UI leaves out for keyboards and screen readers is added to its elements as they
 * appear.
 */
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const setScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", setScheme);
setScheme();

const shown = document.getElementById("description");
new MutationObserver(() => addMissing(shown)).observe(shown, { childList: true, subtree: true });

window.SwaggerUIBundle({
  url: "openapi.json",
  domNode: shown,
  deepLinking: false, // it puts a link into each button
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  persistAuthorization: false,
  validatorUrl: null, // nothing is sent elsewhere
  presets: [window.SwaggerUIBundle.presets.apis],
});

function addMissing(parent) {
  for (const heading of parent.querySelectorAll("h3:not([aria-level]), h4:not([aria-level])"))
    heading.setAttribute("aria-level", heading.tagName === "H3" ? "2" : "3"); // the title above them is of level 1
  for (const example of parent.querySelectorAll("pre.microlight:not([tabindex])")) example.tabIndex = 0; // it scrolls
  for (const field of parent.querySelectorAll(".parameters select:not([aria-label])")) {
    const name = field.closest("tr")?.dataset.paramName;
    if (name !== undefined) field.setAttribute("aria-label", name);
  }
  for (const body of parent.querySelectorAll("textarea:not([aria-label])"))
    body.setAttribute("aria-label", "Body");
  for (const button of parent.querySelectorAll(".close-modal:not([aria-label])"))
    button.setAttribute("aria-label", "Close");
  for (const button of parent.querySelectorAll(".modal-btn[aria-label]"))
    button.removeAttribute("aria-label"); // it has a text
}
