// Keys, and pages that show what runs. Without scripts everything is there but these.

// Who is signed in already may open the whole address again; the token is to stand nowhere.
const forget = () => {
  if (/^#[0-9a-f]{64}$/.test(location.hash)) history.replaceState(null, '', location.pathname + location.search);
};
forget();
// On the page that is open, the address with it loads nothing.
addEventListener('hashchange', forget);
try { sessionStorage.removeItem('linerate-tried'); } catch { /* Nothing was kept. */ }

// --- keys -----------------------------------------------------------------------------------------------------------
const keys = document.getElementById('keys');
const isOn = document.getElementById('keys-on');
const KEPT = 'linerate-keys';
let isGoing = false;

const read = () => { try { return localStorage.getItem(KEPT); } catch { return null; } };
const keep = (value) => { try { localStorage.setItem(KEPT, value); } catch { /* Nothing is kept then. */ } };

if (keys && isOn) {
  isOn.checked = read() !== 'off';
  isOn.addEventListener('change', () => keep(isOn.checked ? 'on' : 'off'));
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target.closest('input, textarea, select, [contenteditable]');
    if (isTyping || event.ctrlKey || event.altKey || event.metaKey || keys.open) return;
    if (event.key === '?') { event.preventDefault(); keys.showModal(); return; }
    if (!isOn.checked) return;
    if (isGoing) {
      isGoing = false;
      const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
    } else if (event.key === 'g') {
      isGoing = true;
    } else if (event.key === '/') {
      const field = document.querySelector('main input:not([type=hidden]), main select, main textarea');
      if (field) { event.preventDefault(); field.focus(); }
    }
  });
}

// --- to copy --------------------------------------------------------------------------------------------------------
for (const button of document.querySelectorAll('button[data-copy]')) {
  button.hidden = !navigator.clipboard;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = 'Copied';
  });
}

// --- what is wider than the screen ----------------------------------------------------------------------------------
const mark = () => {
  for (const one of document.querySelectorAll('.wide')) {
    one.toggleAttribute('data-more', one.scrollWidth > one.clientWidth + 1);
  }
};
// A part that moves, or is opened, makes the page longer.
new ResizeObserver(mark).observe(document.body);

// --- what runs ------------------------------------------------------------------------------------------------------
if (document.querySelector('[data-live]')) import('./live.js').then((live) => live.follow());
