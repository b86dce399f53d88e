// The token stands behind # in the address, which a browser sends nowhere: it is exchanged for a cookie, and goes.
const token = location.hash.slice(1);
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
}
