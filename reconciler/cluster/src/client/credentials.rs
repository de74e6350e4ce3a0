//! What a connection proves itself with, and whom it trusts, read anew when its files change.
//!
//! A certificate authority is rotated, and a client certificate renewed, while this process runs: a management cluster that upgrades itself does both. kube
//! reads tokens anew by itself, and nothing else.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use axum::http::Uri;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use tower::service_fn;
use tracing::{info, warn};

use super::authorities::Authorities;
use super::connection::{ConnectionError, ConnectionSource, prepare, server};
use super::http::client;
use host::disk;

/// How often files are looked at, at most.
const LOOK: Duration = Duration::from_secs(2);

/// Where a pod finds the authority of its API server (`kube::Config::incluster`).
const IN_CLUSTER: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// What a file was when it was read; none where there was none.
type Seen = Option<(u64, u64, u64, SystemTime)>;

/// The client of a connection and whom it trusts.
pub(crate) struct Credentials {
    /// Where they are read from; none where they came as a value.
    source: Option<ConnectionSource>,
    address: Uri,
    /// Scheme, host and port of the address.
    server: String,
    current: RwLock<Arc<Current>>,
    files: Mutex<Files>,
}

struct Current {
    client: Client,
    authorities: Arc<Authorities>,
    /// What both were made of, and when.
    config: Config,
    made: Instant,
}

struct Files {
    seen: Vec<(PathBuf, Seen)>,
    looked: Instant,
}

impl Credentials {
    /// Those of a configuration. Where it was read from files, `source` says which.
    pub(crate) fn new(config: Config, source: Option<ConnectionSource>) -> Result<Arc<Self>, String> {
        // Looked at before anything is made of them: a change in between is found the next time.
        let seen = source.as_ref().map(look).unwrap_or_default();
        let (address, server) = (config.cluster_url.clone(), server(&config));
        let current = RwLock::new(Arc::new(Current::of(config)?));
        let files = Mutex::new(Files { seen, looked: Instant::now() });
        Ok(Arc::new(Self { source, address, server, current, files }))
    }

    /// A client that always uses the present ones.
    pub(crate) fn client(self: &Arc<Self>, namespace: &str) -> Client {
        let credentials = Arc::clone(self);
        let service = service_fn(move |request: axum::http::Request<Body>| {
            let credentials = Arc::clone(&credentials);
            async move { credentials.present().await.client.send(request).await }
        });
        Client::new(service, namespace)
    }

    /// Whom the server is trusted by.
    pub(crate) fn authorities(&self) -> Arc<Authorities> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).authorities)
    }

    /// A request that was sent then has not been answered in time. The network may have lost its connection and told nobody; then it has lost those
    /// that rest beside it as well, and each would be tried in vain, for as long as an answer is waited for. The next request has a new one.
    pub(crate) fn reconnect(&self, sent: Instant) {
        let present = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        // Of many that waited, the first says so.
        if present.made >= sent {
            return;
        }
        match Current::of(present.config.clone()) {
            Ok(current) => *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(current),
            Err(reason) => warn!(server = self.server, reason, "no new connections can be made; the earlier ones stay"),
        }
    }

    async fn present(&self) -> Arc<Current> {
        if let Some(source) = self.source.as_ref().filter(|_| self.have_changed()) {
            match self.read(source).await {
                Ok(current) => {
                    info!(server = self.server, "credentials of the API server have changed and were read anew");
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(current);
                }
                // They may be in the making. Whoever is refused by the old ones hears so with each request.
                Err(reason) => {
                    warn!(server = self.server, reason, "changed credentials cannot be used; the earlier ones stay");
                }
            }
        }
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn read(&self, source: &ConnectionSource) -> Result<Current, String> {
        let config = configuration(source).await.map_err(|error| error.to_string())?;
        if config.cluster_url != self.address {
            return Err(format!("they lead to {} now; restart to go there", server(&config)));
        }
        Current::of(config)
    }

    fn have_changed(&self) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.looked.elapsed() < LOOK {
            return false;
        }
        files.looked = Instant::now();
        let has_changed = files.seen.iter().any(|(path, seen)| *seen != state(path));
        if has_changed && let Some(source) = &self.source {
            files.seen = look(source);
        }
        has_changed
    }
}

impl Current {
    fn of(config: Config) -> Result<Self, String> {
        let certificates = config.root_cert.iter().flatten().map(Vec::as_slice);
        let authorities = Arc::new(Authorities::of(certificates));
        let client = client(prepare(config.clone())).map_err(|error: Error| error.to_string())?;
        Ok(Self { client, authorities, config, made: Instant::now() })
    }
}

/// Reads the configuration from its source.
pub(crate) async fn configuration(source: &ConnectionSource) -> Result<Config, ConnectionError> {
    match source {
        ConnectionSource::InCluster => {
            Config::incluster().map_err(|error| ConnectionError::InCluster { reason: error.to_string() })
        }
        ConnectionSource::Kubeconfig { path, context } => {
            let place = path
                .as_ref()
                .map_or_else(|| String::from("$KUBECONFIG or ~/.kube/config"), |path| path.display().to_string());
            let failed = |reason: String| ConnectionError::Kubeconfig { place: place.clone(), reason };
            for path in kubeconfigs(path.as_deref()) {
                if let Err(error) = disk::open(&path)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    return Err(failed(format!("{}: {error}", path.display())));
                }
            }
            let kubeconfig = path.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
            let kubeconfig = kubeconfig.map_err(|error| failed(error.to_string()))?;
            let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| failed(error.to_string()))
        }
    }
}

/// The files that a kubeconfig is read from: the one named, else those of `KUBECONFIG`, else `~/.kube/config`.
fn kubeconfigs(named: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.to_owned()];
    }
    match std::env::var_os("KUBECONFIG") {
        Some(paths) => std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => std::env::home_dir().map(|home| home.join(".kube").join("config")).into_iter().collect(),
    }
}

/// The files that a source is read from, as they are now: kubeconfigs, and what these name.
fn look(source: &ConnectionSource) -> Vec<(PathBuf, Seen)> {
    let files = match source {
        ConnectionSource::InCluster => vec![PathBuf::from(IN_CLUSTER)],
        ConnectionSource::Kubeconfig { path, .. } => {
            let mut files = kubeconfigs(path.as_deref());
            // The paths in it are absolute once it was read from a file.
            let read: Vec<Kubeconfig> = files.iter().filter_map(|path| Kubeconfig::read_from(path).ok()).collect();
            for kubeconfig in &read {
                let clusters = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
                files.extend(clusters.filter_map(|cluster| cluster.certificate_authority.as_ref()).map(PathBuf::from));
                for user in kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref()) {
                    let named = [&user.client_certificate, &user.client_key];
                    files.extend(named.into_iter().flatten().map(PathBuf::from));
                }
            }
            files
        }
    };
    files.into_iter().map(|path| (path.clone(), state(&path))).collect()
}

fn state(path: &Path) -> Seen {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.len(), metadata.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::Router;
    use axum::http::HeaderMap;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::client::connection::Connection;
    use crate::client::error::RequestError;

    /// An API server that says whom it was asked by.
    async fn serve() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = |headers: HeaderMap| async move { headers["authorization"].to_str().unwrap().to_owned() };
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", get(asked))).await });
        url
    }

    fn kubeconfig(url: &str, token: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"{url}\"}}}}]\nusers: [{{name: u, user: {{token: {token}}}}}]\n"
        )
    }

    #[tokio::test]
    async fn changed_credentials_are_used_but_broken_ones_and_other_servers_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let (url, elsewhere) = (serve().await, serve().await);
        std::fs::write(&path, kubeconfig(&url, "first")).unwrap();
        let source = ConnectionSource::Kubeconfig { path: Some(path.clone()), context: None };
        let config = configuration(&source).await.unwrap();
        let credentials = Credentials::new(config, Some(source)).unwrap();
        let client = credentials.client("default");
        let asked = async || {
            let request = axum::http::Request::get("/").body(Vec::new()).unwrap();
            client.request_text(request).await.unwrap()
        };
        // Looks once more at the files, however soon.
        let look_again = || credentials.files.lock().unwrap().looked = Instant::now().checked_sub(LOOK).unwrap();

        assert_eq!(asked().await, "Bearer first");
        for unusable in ["no kubeconfig: [".to_owned(), kubeconfig(&elsewhere, "stolen")] {
            std::fs::write(&path, unusable).unwrap();
            look_again();
            assert_eq!(asked().await, "Bearer first");
        }
        std::fs::write(&path, kubeconfig(&url, "second")).unwrap();
        assert_eq!(asked().await, "Bearer first", "files are not looked at with each request");
        look_again();
        assert_eq!(asked().await, "Bearer second");
        std::fs::remove_file(&path).unwrap();
        look_again();
        assert_eq!(asked().await, "Bearer second");
        std::fs::write(&path, kubeconfig(&url, "third")).unwrap();
        look_again();
        assert_eq!(asked().await, "Bearer third");
    }

    /// Answers whatever comes by a connection, until all that were made so far are lost: then these are silent, and later ones are not. Nothing is
    /// answered before so many connections are made.
    async fn serve_and_lose(connections: usize, lost: Arc<AtomicBool>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let all = Arc::new(tokio::sync::Barrier::new(connections));
        tokio::spawn(async move {
            for number in 0.. {
                let (mut socket, _) = listener.accept().await.unwrap();
                let (all, lost) = (Arc::clone(&all), Arc::clone(&lost));
                tokio::spawn(async move {
                    let mut read = [0; 4096];
                    let mut is_first = number < connections;
                    while socket.read(&mut read).await.is_ok_and(|length| length > 0) {
                        if std::mem::take(&mut is_first) {
                            all.wait().await;
                        }
                        if number < connections && lost.load(Ordering::SeqCst) {
                            continue;
                        }
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"groups\":[]}";
                        socket.write_all(answer).await.unwrap();
                    }
                });
            }
        });
        url
    }

    #[tokio::test]
    async fn one_silence_is_enough_to_leave_all_connections_that_rest() {
        const CONNECTIONS: usize = 4;
        let lost = Arc::new(AtomicBool::new(false));
        let url = serve_and_lose(CONNECTIONS, Arc::clone(&lost)).await;
        let connection = Connection::new(Config::new(url.parse().unwrap())).unwrap();
        // What is the same is asked once.
        let paths: Vec<String> = (0..CONNECTIONS).map(|number| format!("/{number}")).collect();
        let asked = paths.iter().map(|path| connection.text(path, "ask"));
        assert!(futures::future::join_all(asked).await.iter().all(Result::is_ok));
        lost.store(true, Ordering::SeqCst);
        let impatient = connection.clone().with_timeout(Duration::from_millis(200));
        let error = impatient.served_versions().await.unwrap_err();
        assert!(matches!(error, RequestError::TimedOut { .. }), "{error}");
        // The others of before rest still, and nobody waits for them.
        connection.served_versions().await.unwrap();
    }
}
