//! Connections: how many there are, how long each may take, and what is read of it. HTTP/1.1 is hyper's.
//! Knows no view; a request that the gate lets in is answered by [`views::answer`] on another thread.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Sleep, sleep, timeout};

use super::access::Passed;
use super::connection_slots::{ConnectionSlot, ConnectionSlots};
#[cfg(feature = "nats")]
use super::counters::Counters;
use super::head::{head_of, one};
use super::reply::{Reply, kind};
use super::request::WebRequest;
use super::tls::Tls;
use super::work_slots::{EACH, RETRY_AFTER, WorkSlots};
use super::{Lab, assets, views};
use crate::interrupt;

/// How long a request's head may take, and a connection may be silent between two requests.
const HEAD_TIME: Duration = Duration::from_secs(15);
const BODY_TIME: Duration = Duration::from_secs(10);
/// The largest form, bytes.
const BODY: usize = 64 << 10;
/// The longest head: a cookie of ours, and the longest address.
const HEAD: usize = 16 << 10;
/// A reader that takes nothing for so long reads no more.
const STALL: Duration = Duration::from_secs(15);
/// A connection lives so long; the browser makes another.
const LIFE: Duration = Duration::from_secs(300);
/// Views at once: two kinds of [`WorkSlots`] have some of them each, and as many are left for what is quick.
const THREADS: usize = 3 * EACH;
/// What a thread that is busy gets when the server ends.
const END: Duration = Duration::from_millis(200);

/// Nothing but what this server has is fetched, run or framed, and no form goes elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Where browsers come in.
pub(crate) enum WebListener {
    Tcp(TcpListener, Option<Tls>),
    /// The socket's file goes with the server.
    Unix(UnixListener, PathBuf),
}

impl WebListener {
    /// A port; with a certificate what passes there is encrypted.
    pub(crate) fn tcp(address: SocketAddr, tls: Option<Tls>) -> Result<WebListener> {
        let listener = TcpListener::bind(address).map_err(|error| {
            anyhow!("cannot listen at {address}: {error}; --listen {}:0 takes any free port", address.ip())
        })?;
        listener.set_nonblocking(true)?;
        Ok(WebListener::Tcp(listener, tls))
    }

    /// A socket that only this user can connect to.
    pub(crate) fn unix(path: &Path) -> Result<WebListener> {
        let is_socket = fs::symlink_metadata(path).map(|found| found.file_type().is_socket());
        match is_socket {
            Ok(false) => bail!("--socket: {} is there, and is no socket; name another file", path.display()),
            Ok(true) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                bail!("--socket: somebody listens at {} already; name another file", path.display())
            }
            // An earlier server was killed.
            Ok(true) => fs::remove_file(path)?,
            Err(_) => {}
        }
        let said =
            |error: io::Error| anyhow!("--socket: cannot listen at {}: {error}; name another file", path.display());
        let listener = bound(path).map_err(said)?;
        listener.set_nonblocking(true)?;
        Ok(WebListener::Unix(listener, path.to_owned()))
    }

    /// What tells its cookie from that of another server of this host: cookies are not kept apart by port.
    fn cookie(&self) -> String {
        match self {
            WebListener::Tcp(listener, _) => {
                format!("linerate-{}", listener.local_addr().map_or(0, |address| address.port()))
            }
            WebListener::Unix(..) => "linerate-socket".to_owned(),
        }
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            WebListener::Tcp(listener, _) => listener.local_addr().ok(),
            WebListener::Unix(..) => None,
        }
    }
}

/// A socket that nobody else could connect to at any time: bound where only this user comes, and then put in its place.
fn bound(path: &Path) -> io::Result<UnixListener> {
    let folder = path.with_file_name(format!(".{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let inner = folder.join("s");
    let made = UnixListener::bind(&inner).and_then(|listener| {
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o600))?;
        fs::rename(&inner, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&inner);
    let _ = fs::remove_dir(&folder);
    made
}

impl Drop for WebListener {
    fn drop(&mut self) {
        if let WebListener::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// Serves until Ctrl-C, in a thread of its own. Campaigns that were started here are asked to end, and waited for; `say` hears
/// of that.
pub(crate) fn serve(lab: Lab, mut listener: WebListener, say: &(dyn Fn(&str) + Sync)) -> Result<()> {
    let lab = Arc::new(lab);
    let served = thread::scope(|scope| {
        let lab = Arc::clone(&lab);
        let server = thread::Builder::new().name("linerate-web".to_owned()).spawn_scoped(scope, move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(THREADS)
                .thread_keep_alive(Duration::from_secs(5))
                .build()
                .context("this machine has no room for a server's thread")?;
            let ended = runtime.block_on(accept_all(&lab, &mut listener));
            runtime.shutdown_timeout(END);
            ended
        });
        server?.join().unwrap_or_else(|_| bail!("the server's thread failed; start it again, and tell us what it said"))
    });
    lab.runs.end(say);
    served
}

/// Serves counters in a thread of its own until this is dropped.
#[cfg(feature = "nats")]
pub(crate) struct Served {
    /// Dropped to end it.
    end: Option<tokio::sync::oneshot::Sender<()>>,
    server: Option<thread::JoinHandle<()>>,
}

#[cfg(feature = "nats")]
impl Served {
    pub(crate) fn begin(counters: Counters, listener: WebListener) -> Result<Served> {
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("this machine has no room for a server's thread")?;
        let site = Site::Counters(Box::new(counters));
        let serving = move || {
            let state = Arc::new(ServerState {
                site,
                cookie: String::new(),
                tls: None,
                turns: WorkSlots::new(),
                places: ConnectionSlots::new(),
            });
            runtime.block_on(first(accept(&state, &listener), async { drop(ended.await) }));
            runtime.shutdown_timeout(END);
        };
        let server = thread::Builder::new().name("linerate-metrics".to_owned()).spawn(serving)?;
        Ok(Served { end: Some(end), server: Some(server) })
    }
}

#[cfg(feature = "nats")]
impl Drop for Served {
    fn drop(&mut self) {
        drop(self.end.take());
        self.server.take().map(thread::JoinHandle::join);
    }
}

/// What is served.
enum Site {
    Lab(Arc<Lab>),
    #[cfg(feature = "nats")]
    Counters(Box<Counters>),
}

/// What all connections have in common.
struct ServerState {
    site: Site,
    cookie: String,
    tls: Option<Tls>,
    turns: WorkSlots,
    places: ConnectionSlots,
}

async fn accept_all(lab: &Arc<Lab>, listener: &mut WebListener) -> Result<()> {
    let mut ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
        .map(signal)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let cookie = listener.cookie();
    let tls = match listener {
        WebListener::Tcp(_, tls) => tls.take(),
        WebListener::Unix(..) => None,
    };
    let lab_to_check = Arc::clone(lab);
    // Of a large store this takes a second. What is wrong with it, each page that reads it says.
    tokio::task::spawn_blocking(move || lab_to_check.store().is_ok_and(|store| store.check().is_ok()));
    let (site, turns) = (Site::Lab(Arc::clone(lab)), WorkSlots::new());
    let state = Arc::new(ServerState { site, cookie, tls, turns, places: ConnectionSlots::new() });
    let ended = std::future::poll_fn(|context| {
        // A signal that came before this handler was installed does not come again.
        let came = interrupt::requested() || ends.iter_mut().any(|end| end.poll_recv(context).is_ready());
        if came { Poll::Ready(()) } else { Poll::Pending }
    });
    first(accept(&state, listener), ended).await.unwrap_or(Ok(()))
}

/// Lets browsers in, for ever.
async fn accept(state: &Arc<ServerState>, listener: &WebListener) -> Result<()> {
    match listener {
        WebListener::Tcp(listener, _) => {
            let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        let _ = stream.set_nodelay(true);
                        begin(state, stream, Some(peer.ip()));
                    }
                    // There are no descriptors left; some connection will end.
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        }
        WebListener::Unix(listener, _) => {
            let listener = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => begin(state, stream, None),
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            }
        }
    }
}

/// What the first future comes to, unless the second ends before.
async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = ()>) -> Option<T> {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|context| match (other.as_mut().poll(context), one.as_mut().poll(context)) {
        (_, Poll::Ready(value)) => Poll::Ready(Some(value)),
        (Poll::Ready(()), _) => Poll::Ready(None),
        _ => Poll::Pending,
    })
    .await
}

/// Converses with who came from an address, or by the socket, until it goes or has to give way.
fn begin<S>(state: &Arc<ServerState>, stream: S, from: Option<IpAddr>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (state, place) = (Arc::clone(state), Arc::new(state.places.admit(from)));
    let peer = from.map_or("the socket".to_owned(), |from| from.to_string());
    tokio::spawn(async move {
        first(greet(&state, stream, peer, &place), place.closed()).await;
    });
}

/// What stands before a conversation: a handshake, where there is a certificate.
async fn greet<S>(state: &Arc<ServerState>, stream: S, peer: String, place: &Arc<ConnectionSlot>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match &state.tls {
        None => converse(state, stream, peer, place).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HEAD_TIME, tls.accept(stream)).await {
                converse(state, stream, peer, place).await;
            }
        }
    }
}

/// Answers one browser until it goes, or for as long as a connection lives.
async fn converse<S>(state: &Arc<ServerState>, stream: S, peer: String, place: &Arc<ConnectionSlot>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(move |request| {
        let (state, peer, place) = (Arc::clone(state), peer.clone(), Arc::clone(place));
        async move { Ok::<_, Infallible>(response(answered(&state, &place, peer, request).await)) }
    });
    let io = Patient { io: TokioIo::new(stream), stall: Box::pin(sleep(STALL)), is_stalled: false };
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD)
            .max_headers(64)
            .serve_connection(io, answer)
    );
    if first(connection.as_mut(), sleep(LIFE)).await.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(STALL, connection).await;
    }
}

/// A stream whose reader has to read.
struct Patient<S> {
    io: TokioIo<S>,
    stall: Pin<Box<Sleep>>,
    is_stalled: bool,
}

impl<S> Patient<S> {
    /// A write that can wait no longer is an error.
    fn waited(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.is_stalled = false;
            return written;
        }
        if !std::mem::replace(&mut self.is_stalled, true) {
            self.stall.as_mut().reset(tokio::time::Instant::now() + STALL);
        }
        ready!(self.stall.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> Read for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> Write for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, octets);
        self.waited(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, octets);
        self.waited(context, written)
    }
}

async fn answered(state: &ServerState, place: &ConnectionSlot, peer: String, request: Request<Incoming>) -> Reply {
    let ServerState { site, cookie, tls, turns, .. } = state;
    #[cfg_attr(not(feature = "nats"), expect(clippy::infallible_destructuring_match))]
    let lab = match site {
        Site::Lab(lab) => lab,
        #[cfg(feature = "nats")]
        Site::Counters(counters) => return counters.answered(&request, place),
    };
    let headers = request.headers();
    let given = cookie_of(headers, cookie).map(str::to_owned);
    // A scraper's token leads to one page only, and to look at that.
    let is_scraped = matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path() == "/metrics";
    let is_scraper = |token: &str| is_scraped && lab.scraper.as_ref().is_some_and(|known| known.is(token));
    let has_cookie = given.as_deref().is_some_and(|value| lab.sessions.is_cookie(value));
    let head = head_of(&request, &|token| lab.sessions.is_token(token) || is_scraper(token), has_cookie);
    let passed = match lab.gate.passes(&head) {
        Ok(passed) => passed,
        Err((status, sentence)) => return Reply::said(status, sentence),
    };
    if passed == Passed::Known {
        place.set_known();
    }
    let is_secure = tls.is_some() || head.origin.is_some_and(|origin| origin.starts_with("https:"));
    let is_post = request.method() == Method::POST;
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let Some(asked) = WebRequest::new(path, query) else {
        return Reply::said(400, "The address is no text of UTF-8.");
    };
    if !is_post && let Some(reply) = assets::answer(&asked.path(), headers.get(header::IF_NONE_MATCH)) {
        return reply;
    }
    let asked = asked.by(peer).accepting(one(headers, &header::ACCEPT));
    let asked = match is_post {
        false => asked,
        true => {
            let body = Limited::new(request.into_body(), BODY).collect();
            match timeout(BODY_TIME, body).await {
                Ok(Ok(body)) => asked.post(&body.to_bytes()),
                Ok(Err(_)) => return Reply::said(413, "A form has 64 KiB at most."),
                Err(_) => return Reply::said(408, "The form did not come within 10 s."),
            }
        }
    };
    match (asked.path().as_slice(), passed) {
        (["session"], _) if is_post => signed_in(lab, cookie, is_secure, &asked),
        (["session", "end"], Passed::Known) if is_post => {
            given.iter().for_each(|value| lab.sessions.end(value));
            Reply::see("/").with("set-cookie", format!("{cookie}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"))
        }
        (_, Passed::Unknown) if is_post => {
            Reply::said(401, "Sign in first: open the address that linerate web printed.")
        }
        (_, Passed::Unknown) => Reply::new(401, kind::HTML, super::page::sign_in()),
        (_, Passed::Known) => {
            let turn = match turns.next(views::cost(&asked)).await {
                Ok(turn) => turn,
                Err(busy) => return Reply::said(503, busy).with("retry-after", RETRY_AFTER),
            };
            let lab = Arc::clone(lab);
            let made = move || {
                let _turn = turn;
                views::answer(&lab, &asked)
            };
            let told = tokio::task::spawn_blocking(made).await;
            told.unwrap_or_else(|_| {
                Reply::said(500, "linerate made an error here; what it said stands where it was started.")
            })
        }
    }
}

/// The token for a cookie.
fn signed_in(lab: &Lab, cookie: &str, is_secure: bool, asked: &WebRequest) -> Reply {
    if !asked.field("token").is_some_and(|token| lab.sessions.is_token(token)) {
        return Reply::said(
            401,
            "This is not the token of this server; open the address that linerate web printed last.",
        );
    }
    match lab.sessions.begin() {
        Ok(value) => {
            let secure = if is_secure { "; Secure" } else { "" };
            Reply::see("/").with("set-cookie", format!("{cookie}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"))
        }
        Err(error) => Reply::said(500, &error.to_string()),
    }
}

fn cookie_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|field| field.to_str().ok());
    let pairs = all.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(other, _)| *other == name).map(|(_, value)| value);
    // Another server of this host may have set one of the same name for another path.
    found.next().filter(|_| found.next().is_none())
}

/// With what every answer has.
fn response(reply: Reply) -> Response<Full<Bytes>> {
    let body = match reply.body {
        std::borrow::Cow::Borrowed(octets) => Bytes::from_static(octets),
        std::borrow::Cow::Owned(octets) => Bytes::from(octets),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = hyper::StatusCode::from_u16(reply.status).unwrap_or_default();
    let headers = response.headers_mut();
    let always: [(HeaderName, &'static str); 8] = [
        (header::CONTENT_TYPE, reply.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not "no-referrer": then a form of ours would say that its origin is "null" (Fetch, 3.1).
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in reply.head {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}
