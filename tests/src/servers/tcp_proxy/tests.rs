use super::*;

const SHORT: Duration = Duration::from_millis(150);

/// A proxy of a server that says what it hears.
async fn proxy() -> TcpProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut read, mut write) = socket.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    TcpProxy::start(port).await.unwrap()
}

async fn said(socket: &mut TcpStream, word: &[u8]) -> std::io::Result<()> {
    socket.write_all(word).await?;
    heard(socket, word).await
}

async fn heard(socket: &mut TcpStream, word: &[u8]) -> std::io::Result<()> {
    let mut heard = vec![0; word.len()];
    tokio::time::timeout(crate::waiting::PATIENCE, socket.read_exact(&mut heard)).await??;
    assert_eq!(heard, word);
    Ok(())
}

#[tokio::test]
async fn bytes_arrive_as_the_network_is() {
    let proxy = proxy().await;
    let connected = async || TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    let mut socket = connected().await;
    said(&mut socket, b"sound").await.unwrap();

    proxy.is(Network::Slow(SHORT));
    let start = Instant::now();
    said(&mut socket, b"slow").await.unwrap();
    assert!(start.elapsed() >= 2 * SHORT, "{:?}", start.elapsed());

    proxy.is(Network::Silent);
    socket.write_all(b"silent").await.unwrap();
    assert!(tokio::time::timeout(SHORT, socket.read_u8()).await.is_err());
    proxy.is(Network::Sound);
    heard(&mut socket, b"silent").await.unwrap();

    proxy.cut();
    said(&mut socket, b"cut").await.unwrap_err();
    let mut socket = connected().await;
    said(&mut socket, b"new").await.unwrap();

    proxy.is(Network::Refusing);
    said(&mut socket, b"ended").await.unwrap_err();
    said(&mut connected().await, b"refused").await.unwrap_err();
    proxy.is(Network::Sound);
    said(&mut connected().await, b"sound").await.unwrap();
}

#[tokio::test]
async fn nobody_listens_where_the_machine_refuses_and_later_somebody_does() {
    let proxy = proxy().await;
    let mut socket = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    said(&mut socket, b"sound").await.unwrap();
    proxy.is(Network::Closed);
    said(&mut socket, b"ended").await.unwrap_err();
    let is_refused = async || {
        let connected = TcpStream::connect(("127.0.0.1", proxy.port)).await;
        Ok(connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused).then_some(()))
    };
    crate::waiting::until("the machine refuses", is_refused).await.unwrap();
    proxy.is(Network::Sound);
    let is_back = async || {
        let Ok(mut socket) = TcpStream::connect(("127.0.0.1", proxy.port)).await else { return Ok(None) };
        Ok(said(&mut socket, b"sound").await.ok())
    };
    crate::waiting::until("somebody listens again", is_back).await.unwrap();
}

#[tokio::test]
async fn connections_of_a_half_open_network_stay_silent_when_it_is_over() {
    let proxy = proxy().await;
    let connected = async || TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    let mut before = connected().await;
    said(&mut before, b"sound").await.unwrap();
    proxy.is(Network::HalfOpen);
    let mut during = connected().await;
    for socket in [&mut before, &mut during] {
        socket.write_all(b"silent").await.unwrap();
        assert!(tokio::time::timeout(SHORT, socket.read_u8()).await.is_err());
    }
    proxy.is(Network::Sound);
    said(&mut connected().await, b"new").await.unwrap();
    assert_eq!(proxy.connections(), 3);
    for socket in [&mut before, &mut during] {
        assert!(tokio::time::timeout(SHORT, socket.read_u8()).await.is_err());
    }
    proxy.cut();
    for socket in [&mut before, &mut during] {
        said(socket, b"ended").await.unwrap_err();
    }
}

#[tokio::test]
async fn a_connection_is_cut_after_so_many_bytes_of_its_request_or_its_answer() {
    let proxy = proxy().await;
    let connected = async || TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    let told = async |network| {
        proxy.is(network);
        let (mut socket, mut heard) = (connected().await, Vec::new());
        socket.write_all(b"two words").await.unwrap();
        // Where not all was read, the end is an error.
        let _ = socket.read_to_end(&mut heard).await;
        String::from_utf8(heard).unwrap()
    };
    assert_eq!(told(Network::Cut(Way::Answer, 3)).await, "two");
    assert_eq!(told(Network::Cut(Way::Answer, 0)).await, "");
    let requested = told(Network::Cut(Way::Request, 3)).await;
    assert!("two".starts_with(&requested), "{requested}");
}

#[tokio::test]
async fn bytes_trickle_until_the_network_is_sound() {
    let proxy = proxy().await;
    proxy.is(Network::Trickling(2, SHORT / 4));
    let mut socket = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    let start = Instant::now();
    said(&mut socket, b"trickle").await.unwrap();
    // Three pauses between four pieces; on the way back no piece waits for another.
    assert!(start.elapsed() >= SHORT / 4 * 3, "{:?}", start.elapsed());
}
