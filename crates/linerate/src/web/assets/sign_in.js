// The token stands behind # in the address, which a browser sends nowhere: it is exchanged for a cookie, and goes.
const token = location.hash.slice(1);
// Where a page was loaded anew already: not again for ever.
const TRIED = 'linerate-tried';
// The whole address, opened where only the token is new, loads nothing by itself.
addEventListener('hashchange', () => location.reload());
if (token) {
  history.replaceState(null, '', location.pathname + location.search);
  const body = new URLSearchParams({ token });
  const answer = await fetch('/session', { method: 'POST', body, redirect: 'manual', credentials: 'same-origin' });
  // A redirect that is not followed has no status; it means yes.
  if (answer.type === 'opaqueredirect' || answer.ok) {
    location.reload();
  } else {
    document.getElementById('said').textContent = await answer.text();
  }
} else {
  // Whoever followed another site's link has the cookie perhaps, which a browser does not send with that (SameSite=Strict), nor
  // with F5 after it. It does with what a page of ours asks for.
  const here = location.pathname + location.search;
  try {
    if (sessionStorage.getItem(TRIED) !== here) {
      const answer = await fetch('/runs?form=text', { credentials: 'same-origin' });
      if (answer.ok) {
        sessionStorage.setItem(TRIED, here);
        location.replace(here);
      }
    } else {
      sessionStorage.removeItem(TRIED);
    }
  } catch { /* Without a store of its own the page would come back for ever; the token is asked for. */ }
}
