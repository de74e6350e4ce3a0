//! A real Chromium, driven by WebDriver (W3C): chromedriver is a server on this machine, and its commands are JSON.
//!
//! Whatever goes wrong fails the test: every method panics where the browser or the page does not do what is asked.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "only tests call this"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// Where Debian's package puts it, and what others call it.
const DRIVERS: [&str; 2] = ["/usr/bin/chromedriver", "/usr/local/bin/chromedriver"];

/// How long is waited for something that is to come.
const LONG: Duration = Duration::from_secs(300);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// The tabulator, as WebDriver writes it.
pub const TAB: &str = "\u{e004}";

/// The key that sends a form, likewise.
pub const ENTER: &str = "\u{e007}";

/// A browser with one window, until it is dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Browser {
    /// None, and a skipped test, where there is no driver.
    #[must_use]
    pub fn start() -> Option<Self> {
        let Some(program) = DRIVERS.into_iter().find(|program| Path::new(program).exists()) else {
            skip::missing("there is no browser with a driver (Debian: chromium-driver)");
            return None;
        };
        let mut driver = Command::new(program).arg("--port=0").stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("started successfully on port")).unwrap();
        let port: u16 = line.trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, address: ([127, 0, 0, 1], port).into(), session: String::new() };
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
        let arguments = [&arguments[..], &["--no-proxy-server", "--window-size=1280,1000"]].concat();
        let options = json!({"args": arguments});
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}});
        let session = browser.command("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.answer(method, path, body).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert!(answer["value"]["error"].is_null(), "{path}: {}", answer["value"]);
        answer["value"].clone()
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(LONG))?;
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        write!(stream, "{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        // The browser that is started meanwhile keeps the connection open as well: the answer ends by its length.
        let mut reader = BufReader::new(stream);
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line)? > 2 {
            let field = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            length = field.map_or(length, |(_, value)| value.trim().parse().unwrap_or(0));
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.command("POST", &format!("/session/{}{path}", self.session), body)
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Goes to an address and waits until the page is loaded.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    /// What a script on the page gives back.
    #[allow(clippy::must_use_candidate, reason = "scripts do things too")]
    pub fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Asks the page until it says so.
    #[allow(clippy::must_use_candidate, reason = "most only wait")]
    pub fn until(&self, script: &str) -> Duration {
        let begun = Instant::now();
        while self.script(script) != true {
            assert!(begun.elapsed() < LONG, "{script}: {}", self.text());
            // The page needs the processors more.
            std::thread::sleep(PAUSE);
        }
        begun.elapsed()
    }

    /// The text that the page shows.
    #[must_use]
    pub fn text(&self) -> String {
        self.script("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Presses these keys, one after the other, wherever the focus is.
    pub fn press(&self, keys: &str) {
        let keys = keys.chars().map(|key| key.to_string());
        let strokes = keys.flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})));
        let actions: Vec<Value> = strokes.collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    /// Goes on by the tabulator until an element that fits the selector has the focus, as people without a mouse do.
    pub fn tab_to(&self, selector: &str) {
        for _ in 0..200 {
            self.press(TAB);
            let has = format!("return document.activeElement.matches({})", json!(selector));
            if self.script(&has) == true {
                // Whoever sees where they are sees an outline, also once the page has been brought up to date.
                self.until(&format!("{has} && getComputedStyle(document.activeElement).outlineStyle !== 'none'"));
                return;
            }
        }
        panic!("the tabulator does not lead to {selector}: {}", self.text());
    }

    /// The page as screen readers have it: role and name of each node.
    #[must_use]
    pub fn accessible(&self) -> Vec<(String, String)> {
        self.devtools("Accessibility.enable", &json!({}));
        let tree = self.devtools("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().trim().to_owned();
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// A window of this many pixels, which are so many times as large.
    pub fn zoomed(&self, width: u32, times: u32) {
        let metrics =
            json!({"width": width / times, "height": 800 / times, "deviceScaleFactor": times, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Whether pages that are opened from here on may run scripts.
    pub fn without_scripts(&self, without: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": without}));
    }

    /// `light` or `dark`.
    pub fn scheme(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// The whole page as a picture.
    #[must_use]
    pub fn picture(&self) -> Vec<u8> {
        let shot = self.devtools("Page.captureScreenshot", &json!({"format": "png", "captureBeyondViewport": true}));
        base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }

    /// What the browser complains of since it was asked last: a page that breaks its own policy is among it.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        let lines = log.as_array().unwrap().iter();
        let grave = lines.filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING");
        grave.map(|line| line["message"].to_string()).filter(|line| !line.contains("favicon.ico")).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its browser ends with the session, or else with the group of its driver.
        let _ = self.answer("DELETE", &format!("/session/{}", self.session), &Value::Null);
        if let Some(driver) = Pid::from_raw(self.driver.id().cast_signed()) {
            let _ = kill_process_group(driver, Signal::KILL);
        }
        let _ = self.driver.wait();
    }
}
