//! Trees as YAML, in the many ways there are to write it.

use serde_json::{Map, Value};

use super::draw::Draw;
use super::text::RAW;

/// How a file is written.
pub struct Style {
    flow: u32,
    comments: u32,
    anchors: u32,
    indented_lists: bool,
    quotes: u32,
    shuffled: bool,
    /// How often a map holds a key twice.
    repeats: u32,
}

impl Style {
    /// A style for one file.
    pub fn draw(draw: &mut Draw) -> Self {
        let calm = draw.chance(50);
        let mut rarely = |percent: u32, otherwise: u32| if !calm && draw.chance(percent) { otherwise } else { 0 };
        Self {
            flow: rarely(40, 12),
            comments: rarely(40, 15),
            anchors: rarely(30, 25),
            quotes: rarely(60, 30),
            indented_lists: draw.chance(50),
            shuffled: draw.chance(60),
            repeats: if draw.chance(3) { 6 } else { 0 },
        }
    }
}

/// Writes one document.
pub fn document(tree: &Value, draw: &mut Draw) -> String {
    let style = Style::draw(draw);
    let mut writer = Writer { style, draw, anchors: Vec::new(), out: String::new() };
    writer.block(tree, 0, Place::Start);
    writer.out
}

/// Writes a tree on one line.
pub fn inline(tree: &Value, draw: &mut Draw) -> String {
    let style =
        Style { flow: 100, comments: 0, anchors: 0, indented_lists: false, quotes: 20, shuffled: false, repeats: 0 };
    let mut writer = Writer { style, draw, anchors: Vec::new(), out: String::new() };
    writer.flow(tree);
    writer.out
}

/// Where a node starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On a line of its own.
    Start,
    /// After `key:`.
    Key,
    /// After `-`.
    Item,
}

struct Writer<'d> {
    style: Style,
    draw: &'d mut Draw,
    anchors: Vec<(String, Value)>,
    out: String,
}

impl Writer<'_> {
    fn block(&mut self, tree: &Value, indent: usize, place: Place) {
        if place != Place::Start && self.alias(tree) {
            self.end_line();
            return;
        }
        let anchor = self.anchor(tree, place);
        if let Some(name) = &anchor {
            self.out.push_str(&format!(" &{name}"));
        }
        let inline = !matches!(tree, Value::Object(map) if !map.is_empty())
            && !matches!(tree, Value::Array(items) if !items.is_empty());
        if inline || (place != Place::Start && self.flows(tree)) {
            if place != Place::Start {
                self.out.push(' ');
            }
            match tree {
                Value::String(text) if !self.scalar_block(text, indent) => self.scalar(text),
                Value::String(_) => return,
                _ => self.flow(tree),
            }
            self.end_line();
            return;
        }
        match tree {
            Value::Object(map) => self.mapping(map, indent, place, anchor.is_some()),
            Value::Array(items) => self.sequence(items, indent, place, anchor.is_some()),
            _ => {}
        }
    }

    fn mapping(&mut self, map: &Map<String, Value>, indent: usize, place: Place, anchored: bool) {
        let mut on_new_line = place != Place::Item || anchored;
        if on_new_line && place != Place::Start {
            self.out.push('\n');
        }
        let mut entries: Vec<(&String, &Value)> = map.iter().collect();
        if self.style.shuffled {
            self.draw.shuffle(&mut entries);
        }
        self.repeat(&mut entries);
        if let Some((name, merged)) = self.mergeable(map) {
            entries.retain(|(key, value)| merged.get(*key) != Some(*value));
            self.start_entry(indent, on_new_line);
            self.out.push_str(&format!("<<: *{name}\n"));
            on_new_line = true;
        }
        for (key, value) in entries {
            self.comment(indent, on_new_line);
            self.start_entry(indent, on_new_line);
            on_new_line = true;
            self.key(key);
            self.out.push(':');
            let below = match value {
                Value::Array(_) if !self.style.indented_lists => indent,
                _ => indent + 2,
            };
            self.block(value, below, Place::Key);
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, place: Place, anchored: bool) {
        let mut on_new_line = place != Place::Item || anchored;
        if on_new_line && place != Place::Start {
            self.out.push('\n');
        }
        for item in items {
            self.comment(indent, on_new_line);
            self.start_entry(indent, on_new_line);
            on_new_line = true;
            self.out.push('-');
            self.block(item, indent + 2, Place::Item);
        }
    }

    /// Adds a key that is there already, with the value of any of them.
    fn repeat(&mut self, entries: &mut Vec<(&String, &Value)>) {
        if self.style.repeats > 0 && !entries.is_empty() && self.draw.chance(self.style.repeats) {
            let (key, value) = (self.draw.pick(entries).0, self.draw.pick(entries).1);
            entries.push((key, value));
        }
    }

    fn start_entry(&mut self, indent: usize, on_new_line: bool) {
        if on_new_line {
            self.out.push_str(&" ".repeat(indent));
        } else {
            self.out.push(' ');
        }
    }

    fn comment(&mut self, indent: usize, on_new_line: bool) {
        if on_new_line && self.draw.chance(self.style.comments) {
            self.out.push_str(&format!("{}# a comment\n", " ".repeat(indent)));
        }
    }

    fn end_line(&mut self) {
        if self.draw.chance(self.style.comments) {
            self.out.push_str(" # why");
        }
        self.out.push('\n');
    }

    fn flows(&mut self, tree: &Value) -> bool {
        fn multiline(tree: &Value) -> bool {
            match tree {
                Value::String(text) => text.starts_with(RAW),
                Value::Array(items) => items.iter().any(multiline),
                Value::Object(map) => map.iter().any(|(key, value)| key.starts_with(RAW) || multiline(value)),
                _ => false,
            }
        }
        self.draw.chance(self.style.flow) && !multiline(tree)
    }

    /// A node that was written before can be an alias.
    fn alias(&mut self, tree: &Value) -> bool {
        let known = self.anchors.iter().rev().find(|(_, known)| known == tree);
        let Some((name, _)) = known.cloned() else {
            return false;
        };
        let wanted = self.draw.chance(60);
        if wanted {
            self.out.push_str(&format!(" *{name}"));
        }
        wanted
    }

    fn anchor(&mut self, tree: &Value, place: Place) -> Option<String> {
        let worth = match tree {
            Value::Object(map) => !map.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::String(text) => !text.starts_with(RAW),
            _ => true,
        };
        if place == Place::Start || !worth || !self.draw.chance(self.style.anchors) {
            return None;
        }
        let name = format!("a{}", self.anchors.len());
        self.anchors.push((name.clone(), tree.clone()));
        Some(name)
    }

    /// An anchored map that this one contains.
    fn mergeable(&mut self, map: &Map<String, Value>) -> Option<(String, Map<String, Value>)> {
        let found = self.anchors.iter().rev().find_map(|(name, known)| {
            let known = known.as_object()?;
            let inside = known.len() < map.len() && known.iter().all(|(key, value)| map.get(key) == Some(value));
            inside.then(|| (name.clone(), known.clone()))
        })?;
        self.draw.chance(70).then_some(found)
    }

    fn key(&mut self, key: &str) {
        self.scalar(key);
    }

    fn flow(&mut self, tree: &Value) {
        match tree {
            Value::Object(map) => {
                self.out.push('{');
                let mut entries: Vec<(&String, &Value)> = map.iter().collect();
                self.repeat(&mut entries);
                for (index, (key, value)) in entries.into_iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.scalar(key);
                    self.out.push_str(": ");
                    self.flow(value);
                }
                self.out.push('}');
            }
            Value::Array(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.flow(item);
                }
                self.out.push(']');
            }
            Value::String(text) => self.scalar(text),
            other => self.out.push_str(&other.to_string()),
        }
    }

    fn scalar(&mut self, text: &str) {
        if let Some(yaml) = text.strip_prefix(RAW) {
            self.out.push_str(yaml);
        } else if is_plain(text) && !self.draw.chance(self.style.quotes) {
            self.out.push_str(text);
        } else if !text.contains(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{feff}') && self.draw.chance(50)
        {
            self.out.push_str(&format!("'{}'", text.replace('\'', "''")));
        } else {
            self.out.push_str(&Value::String(text.to_owned()).to_string());
        }
    }

    /// Writes a text of several lines as a block, where it can be one.
    fn scalar_block(&mut self, text: &str, indent: usize) -> bool {
        let fits = text.contains('\n')
            && !text.starts_with([' ', '\n', '\t'])
            && text.chars().all(|c| c == '\n' || !c.is_control())
            && text.trim_end_matches('\n').lines().all(|line| !line.trim().is_empty() || line.is_empty());
        if !fits || !self.draw.chance(85) {
            return false;
        }
        let body = text.trim_end_matches('\n');
        let breaks = text.len() - body.len();
        self.out.push_str(if self.draw.chance(85) { "|" } else { ">" });
        self.out.push_str(match breaks {
            0 => "-",
            1 => "",
            _ => "+",
        });
        self.out.push('\n');
        for line in body.lines() {
            if !line.is_empty() {
                self.out.push_str(&" ".repeat(indent.max(1)));
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
        for _ in 1..breaks {
            self.out.push('\n');
        }
        true
    }
}

/// Says whether a text can stand without quotes, by the narrowest rule.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let inner = |c: char| c.is_ascii_alphanumeric() || "_./ -".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(inner)
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}
