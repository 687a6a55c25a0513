// Pan and zoom of what is larger than its frame: by wheel, drag, pinch and keys.

const LARGEST = 2;
const NARROW = 600;
const READABLE = 0.62;

export class PanZoom {
  /** ``size()`` gives width and height of the content, ``onMove`` hears the new place. */
  constructor(frame, content, size, onMove = () => {}) {
    this.frame = frame;
    this.content = content;
    this.size = size;
    this.onMove = onMove;
    this.x = this.y = 0;
    this.k = 1;
    this.touched = false;
    this.pointers = new Map();
    frame.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    frame.addEventListener("pointerdown", (event) => this.down(event));
    frame.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) frame.addEventListener(name, (event) => this.up(event));
    // Moving the focus to what is out of sight would scroll the frame; its place is in the transform alone.
    frame.addEventListener("scroll", () => frame.scrollTo(0, 0));
    new ResizeObserver(() => !this.touched && this.fit(true)).observe(frame);
  }

  apply() {
    this.content.style.setProperty("transform", `translate(${this.x}px, ${this.y}px) scale(${this.k})`);
    this.onMove(this);
  }

  get smallest() {
    const { width, height } = this.size();
    const box = this.frame.getBoundingClientRect();
    return Math.min(0.5, (box.width - 24) / Math.max(width, 1), (box.height - 24) / Math.max(height, 1));
  }

  /** Shows everything, centred; small graphs are not blown up. */
  fit(begin = false) {
    const { width, height } = this.size();
    const box = this.frame.getBoundingClientRect();
    if (!box.width || !width) return;
    this.k = Math.min(1, (box.width - 36) / width, (box.height - 36) / height);
    // In a narrow frame all of it would be too small to read: begin at its left end.
    if (begin && box.width < NARROW) this.k = Math.max(this.k, Math.min(READABLE, (box.height - 36) / height));
    this.x = Math.max(12, (box.width - width * this.k) / 2);
    this.y = (box.height - height * this.k) / 2;
    this.touched = false;
    this.apply();
  }

  zoom(factor, at = null) {
    const box = this.frame.getBoundingClientRect();
    const [x, y] = at ? [at.clientX - box.left, at.clientY - box.top] : [box.width / 2, box.height / 2];
    const k = Math.min(LARGEST, Math.max(this.smallest, this.k * factor));
    this.x = x - ((x - this.x) * k) / this.k;
    this.y = y - ((y - this.y) * k) / this.k;
    this.k = k;
    this.touched = true;
    this.apply();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.touched = true;
    this.apply();
  }

  /** Brings a rectangle of the content into the frame. */
  reveal(x, y, width, height) {
    const box = this.frame.getBoundingClientRect();
    const [left, top] = [this.x + x * this.k, this.y + y * this.k];
    const dx = left < 16 ? 16 - left : Math.min(0, box.width - 16 - (left + width * this.k));
    const dy = top < 16 ? 16 - top : Math.min(0, box.height - 16 - (top + height * this.k));
    if (dx || dy) this.pan(dx, dy);
  }

  wheel(event) {
    // A page must still scroll past: the wheel alone zooms only while the graph has the focus.
    if (!event.ctrlKey && !event.metaKey && !this.frame.contains(document.activeElement)) return;
    event.preventDefault();
    if (event.shiftKey) this.pan(-event.deltaY - event.deltaX, 0);
    else this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event);
  }

  down(event) {
    if (event.button) return;
    this.pointers.set(event.pointerId, event);
    this.travelled = 0;
  }

  move(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    const [dx, dy] = [event.clientX - last.clientX, event.clientY - last.clientY];
    if (this.pointers.size === 2) {
      const other = [...this.pointers.values()].find((one) => one.pointerId !== event.pointerId);
      const span = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      this.zoom(span(event) / Math.max(span(last), 1), other);
    } else {
      this.travelled += Math.abs(dx) + Math.abs(dy);
      if (this.travelled < 4) return;
      // Captured only once it is a drag: a captured press would not click the operator under it.
      if (!this.frame.hasPointerCapture(event.pointerId)) this.frame.setPointerCapture(event.pointerId);
      this.frame.classList.add("dragging");
      this.pan(dx, dy);
    }
    this.pointers.set(event.pointerId, event);
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    this.frame.classList.remove("dragging");
  }
}
