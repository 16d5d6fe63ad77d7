// What Lumino expects of a browser and jsdom does not have.
class Nothing {
  observe() {}
  unobserve() {}
  disconnect() {}
}
globalThis.DragEvent ??= class DragEvent extends MouseEvent {};
globalThis.ResizeObserver ??= Nothing;
globalThis.IntersectionObserver ??= Nothing;
Element.prototype.scrollIntoView ??= () => {};
window.matchMedia ??= () => ({ matches: false, addEventListener() {}, addListener() {} });
window.requestIdleCallback ??= callback => setTimeout(() => callback({ didTimeout: false, timeRemaining: () => 50 }));
window.cancelIdleCallback ??= clearTimeout;
if (!navigator.clipboard) {
  Object.defineProperty(navigator, 'clipboard', { value: {} });
}
