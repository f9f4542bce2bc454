//! A small HTTP server for tests. Its threads run until the test program ends.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One request; header names are in lower case.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A reply to a request.
#[derive(Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Bytes of the body after which the connection is closed.
    pub cut: Option<usize>,
    /// Whether the reply to HEAD has no `Content-Length`, as that of some proxies.
    pub sizeless: bool,
    /// Pause after every byte of the body.
    pub drip: Option<Duration>,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The range of `body` that the request asks for, or all of it.
    pub fn content(request: &Request, body: &[u8]) -> Self {
        let from =
            request.header("range").and_then(|r| r.strip_prefix("bytes=")?.split('-').next()?.parse().ok());
        match from {
            Some(from) => Self { status: 206, body: body[from..].to_vec(), ..Self::default() }
                .with("Content-Range", format!("bytes {from}-{}/{}", body.len() - 1, body.len())),
            None => Self { status: 200, body: body.to_vec(), ..Self::default() },
        }
    }
}

type Answer = dyn Fn(&Request) -> Reply + Send + Sync;

/// A running server and the log of its requests.
#[derive(Clone)]
pub struct Server {
    pub port: u16,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "a test's threads end with it, and need no name")]
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { port: listener.local_addr().unwrap().port(), log: Arc::default() };
        let (log, answer): (_, Arc<Answer>) = (server.log.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        server
    }

    pub fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    /// The `Range` header of every GET request.
    pub fn ranges(&self) -> Vec<Option<String>> {
        let gets = self.requests().into_iter().filter(|r| r.method == "GET");
        gets.map(|r| r.header("range").map(str::to_owned)).collect()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Request>>, answer: &Answer) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let mut start = lines.next().unwrap().split(' ');
    let (method, path) = (start.next().unwrap().to_owned(), start.next().unwrap().to_owned());
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(n, v)| (n.to_lowercase(), v.to_owned()));
    let headers: HashMap<String, String> = headers.collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).is_err() {
        return;
    }
    let request = Request { method, path, headers, body };
    let reply = answer(&request);
    log.lock().unwrap().push(request.clone());
    let mut text = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    if request.method != "HEAD" || !reply.sizeless {
        text += &format!("Content-Length: {}\r\n", reply.body.len());
    }
    for (name, value) in &reply.headers {
        text += &format!("{name}: {value}\r\n");
    }
    let _ = stream.write_all(format!("{text}\r\n").as_bytes());
    if request.method != "HEAD" {
        let body = &reply.body[..reply.cut.unwrap_or(reply.body.len())];
        let Some(pause) = reply.drip else {
            let _ = stream.write_all(body);
            return;
        };
        for byte in body {
            if stream.write_all(&[*byte]).is_err() {
                return; // whoever asked has given up
            }
            std::thread::sleep(pause);
        }
    }
}
