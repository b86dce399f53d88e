// A page that shows what runs asks the server again and again, and puts in place what changed. Every answer is whole, so
// that nothing is missed by a tab that slept; a tab that nobody sees asks nothing.

// Agents tell once a second: so what they tell is on the screen within half a second, mostly within a quarter.
const BUSY = 400;
const IDLE = 2000;
// Where the keyboard stops.
const STOPS = 'a, summary, button, [tabindex]';
// A screen reader is told at most so often.
const NEWS = 5000;

export function follow() {
  const root = document.querySelector('[data-live]');
  const news = document.getElementById('news');
  let version = root.dataset.version;
  let isAsking = false;
  let failed = 0;
  let timer = 0;
  let said = 0;
  let unsaid = 0;

  const later = (time) => {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(ask, time);
  };

  async function ask() {
    if (isAsking) return;
    isAsking = true;
    let next = BUSY;
    try {
      const answer = await fetch(`${root.dataset.live}?v=${version}`, { credentials: 'same-origin' });
      failed = 0;
      if (answer.status === 200) {
        version = answer.headers.get('x-version');
        put(new DOMParser().parseFromString(await answer.text(), 'text/html'));
        if (answer.headers.get('x-over')) next = IDLE;
        root.removeAttribute('data-lost');
      } else if (answer.status === 401 || answer.status === 404) {
        location.reload();
        return;
      } else if (answer.status !== 204) {
        next = IDLE;
      }
    } catch {
      // Once may be a connection that was closed while this tab slept.
      failed += 1;
      if (failed > 1) {
        root.setAttribute('data-lost', '');
        tell('The server does not answer.');
        next = IDLE;
      }
    } finally {
      isAsking = false;
    }
    later(next);
  }

  function put(told) {
    for (const part of told.querySelectorAll('[data-part]')) {
      const old = root.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
      if (!old || old.dataset.mark === part.dataset.mark) continue;
      // What is open stays open, and where one is stays where one is.
      const open = [...old.querySelectorAll('details')].map((one) => one.open);
      part.querySelectorAll('details').forEach((one, at) => { one.open = open[at] ?? false; });
      const all = [...old.querySelectorAll(STOPS)];
      const at = all.indexOf(document.activeElement);
      old.replaceWith(document.adoptNode(part));
      if (at >= 0) part.querySelectorAll(STOPS)[at]?.focus({ preventScroll: true });
    }
    const words = told.querySelector('[data-news]');
    if (words) tell(words.textContent);
  }

  function tell(words) {
    // The newest words are said, late or not: they may be the last.
    clearTimeout(unsaid);
    if (!news || news.textContent === words) return;
    const wait = said + NEWS - Date.now();
    if (wait > 0) {
      unsaid = setTimeout(() => tell(words), wait);
      return;
    }
    said = Date.now();
    news.textContent = words;
  }

  document.addEventListener('resume', () => later(0));
  document.addEventListener('visibilitychange', () => { if (!document.hidden) later(0); });
  later(BUSY);
}
