//! An HTTP server for tests: answers that no honest server gives.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    pub body: String,
}

/// Serves canned answers on a port of its own, as long as the test runs; an empty answer keeps the connection open.
pub fn serve(answer: impl Fn(&Request, u16) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let answer = answer(&read(&mut stream), port);
            if answer.is_empty() {
                // Never answers: the connection stays open.
                std::mem::forget(stream);
            } else {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    port
}

fn read(stream: &mut TcpStream) -> Request {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        let length = stream.read(&mut buffer).unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let header = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
        };
        let expected = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if length == 0 || head.len() < text.len() && body.len() >= expected {
            let mut words = head.split(' ').map(str::to_owned);
            let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            return Request { method, path, authorization: header("authorization"), body: body.to_owned() };
        }
    }
}

/// An answer with headers, each on a line.
pub fn answer(status: &str, headers: &str, body: &str) -> String {
    let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

pub fn ok(body: &str) -> String {
    answer("200 OK", "", body)
}

pub fn redirect(to: &str) -> String {
    answer("302 Found", &format!("Location: {to}"), "")
}
