//! The HTTP client of an API server.

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config, Error};
use tower::ServiceBuilder;

/// A client by this configuration. It tries nothing again by itself: the controller reads again anyway, and its reason is better than a long silence.
///
/// The library's own client leaves Nagle's algorithm (RFC 896) on: the first request of a connection waits until the server has acknowledged the end
/// of the handshake, which systems delay by 40 ms. Here it is sent at once. Only through a proxy the library's own client is taken.
pub(crate) fn client(mut config: Config) -> Result<Client, Error> {
    if config.proxy_url.is_some() {
        config.default_retry = false;
        return Client::try_from(config);
    }
    let mut sockets = HttpConnector::new();
    sockets.enforce_http(false);
    sockets.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(sockets)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_reset_reader_on_write(true);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::kubernetes::Connection;

    /// Up to the empty line that ends it, in small letters.
    async fn head(socket: &mut TcpStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap().to_ascii_lowercase()
    }

    /// What arrives at `listener` of a request for the API groups, after this many tunnels were asked for and opened.
    async fn heads(listener: TcpListener, tunnels: usize, config: Config) -> Vec<String> {
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut heads = Vec::new();
            for _ in 0..tunnels {
                heads.push(head(&mut socket).await);
                socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            }
            heads.push(head(&mut socket).await);
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"groups\":[]}").await.unwrap();
            heads
        };
        let connection = Connection::new(config).unwrap();
        let (heads, served) = tokio::join!(serve, connection.served_versions());
        served.unwrap();
        heads
    }

    #[tokio::test]
    async fn requests_carry_the_credentials_and_the_user_that_is_acted_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        config.auth_info.token = Some(String::from("letmein").into());
        config.auth_info.impersonate = Some(String::from("jane"));
        let heads = heads(listener, 0, config).await;
        for line in ["get /apis?", "authorization: bearer letmein\r\n", "impersonate-user: jane\r\n"] {
            assert!(heads[0].contains(line), "{line}: {heads:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_never_begins_to_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        config.read_timeout = Some(Duration::from_millis(100));
        let client = client(config).unwrap();
        let silent = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            head(&mut socket).await;
            std::future::pending::<()>().await;
        };
        let watched = async {
            let request = axum::http::Request::get("/api/v1/nodes?watch=true").body(Body::empty()).unwrap();
            host::waiting::end_of("the request is given up", client.send(request)).await
        };
        tokio::select! {
            () = silent => unreachable!(),
            answer = watched => assert!(answer.is_err()),
        }
    }

    #[tokio::test]
    async fn a_server_behind_a_proxy_is_reached_through_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = Config::new("http://api.example.com:6443".parse().unwrap());
        config.proxy_url = Some(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let heads = heads(listener, 1, config).await;
        assert!(heads[0].starts_with("connect api.example.com:6443 "), "{heads:?}");
        assert!(heads[1].starts_with("get /apis?") && heads[1].contains("host: api.example.com:6443\r\n"), "{heads:?}");
    }
}
