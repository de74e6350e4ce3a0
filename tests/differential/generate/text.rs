//! Words, names, and scalars as people (and their enemies) write them.

use serde_json::{Value, json};

use super::draw::Draw;

/// Marks a text that is YAML already.
pub const RAW: char = '\u{1}';

/// A scalar whose YAML is given.
pub fn raw(yaml: &str) -> Value {
    Value::String(format!("{RAW}{yaml}"))
}

const WORDS: [&str; 24] = [
    "alpha", "beta", "gamma", "delta", "omega", "config", "log", "level", "info", "debug", "http", "port", "host",
    "user", "pass", "token", "url", "path", "mode", "size", "max", "min", "time", "out",
];

/// A word.
pub fn word(draw: &mut Draw) -> String {
    draw.pick(&WORDS).to_owned()
}

/// A text that needs no quotes.
pub fn plain(draw: &mut Draw) -> String {
    let count = draw.number(1, 3);
    let words: Vec<String> = (0..count).map(|_| word(draw)).collect();
    let between = draw.pick(&["-", "_", ".", "/"]);
    words.join(between)
}

/// A value for labels and annotations: short, sometimes one that YAML takes for something else.
pub fn label(draw: &mut Draw) -> String {
    if draw.chance(75) {
        plain(draw)
    } else {
        draw.pick(&[
            "true",
            "1",
            "yes",
            "null",
            "",
            "1.0",
            "0x1F",
            "on",
            "~",
            "2001-01-01",
            "12:30",
            "1e3",
            "a b",
            "no",
            "-",
        ])
        .to_owned()
    }
}

/// A text of many kinds: prose beyond column 80, several lines, quotes, emoji, odd characters.
pub fn prose(draw: &mut Draw) -> String {
    match draw.number(0, 11) {
        0..=2 => plain(draw),
        3 => sentence(draw, 30),
        4 => {
            let mut text = sentence(draw, 25);
            for _ in 0..draw.number(1, 4) {
                let at = draw.number(0, text.len());
                if text.is_char_boundary(at) {
                    text.insert_str(
                        at,
                        draw.pick(&[
                            "  ", "'", "\"", "\\", ": ", " #", ",", "é", "漢字", "😀", "\t", "{", "]", "%", "@",
                        ]),
                    );
                }
            }
            text
        }
        5 => lines(draw),
        6 => draw
            .pick(&[
                "true",
                "no",
                "null",
                "~",
                "",
                "12",
                "1.5",
                "0777",
                "0o17",
                "1_000",
                ".inf",
                "-",
                "?",
                ":",
                "=",
                "<<",
                "!",
                "&a",
                "*a",
                "2024-01-02",
                "2001-12-14t21:59:43.10-05:00",
                "12:30:45",
                "0x1f",
                "+1",
                ".5",
                "1e3",
                "y",
                "N",
                "off",
                "NaN",
            ])
            .to_owned(),
        7 => draw
            .pick(&[
                "a: b",
                "a #b",
                "#a",
                "- a",
                "a:",
                "a,b",
                "[a]",
                "{a: b}",
                "'a'",
                "\"a\"",
                "`a`",
                "@a",
                "%a",
                "| a",
                "> a",
                "a\\b",
                " a",
                "a ",
                "  ",
                "a\tb",
                "\ta",
                "é",
                "😀",
                "a😀b",
                "\u{a0}",
                "a\u{200b}b",
                "\u{e000}",
            ])
            .to_owned(),
        8 => format!("{}\n", lines(draw)),
        9 => {
            let word: String = (0..draw.number(60, 130)).map(|_| draw.pick(&['a', 'b', '/', '-', '0'])).collect();
            format!("{word} {}", sentence(draw, 6))
        }
        10 => format!("$({}) and $$({}) {}", draw.pick(&["NAME", "OTHER"]), word(draw), word(draw)),
        _ => structured(draw),
    }
}

fn sentence(draw: &mut Draw, longest: usize) -> String {
    let count = draw.number(1, longest);
    (0..count).map(|_| word(draw)).collect::<Vec<_>>().join(" ")
}

fn lines(draw: &mut Draw) -> String {
    let count = draw.number(2, 5);
    let line = |draw: &mut Draw| match draw.number(0, 6) {
        0 => String::new(),
        1 => format!("  {}", word(draw)),
        2 => format!("{} ", word(draw)),
        3 => format!("# {}", word(draw)),
        4 => format!("{}={}", word(draw), sentence(draw, 20)),
        _ => sentence(draw, 8),
    };
    let mut text = (0..count).map(|_| line(draw)).collect::<Vec<_>>().join("\n");
    for _ in 0..draw.number(0, 2) {
        text.push('\n');
    }
    text
}

/// JSON or YAML inside a text.
pub fn structured(draw: &mut Draw) -> String {
    match draw.number(0, 5) {
        0 => format!("{{\"{}\": {{\"host\": \"{}\", \"n\": 1}}, \"list\": [1, \"two\"]}}", word(draw), word(draw)),
        1 => format!("{{\n  \"host\": \"{}\",\n  \"deep\": {{\"port\": 80}}\n}}\n", word(draw)),
        2 => format!("host: \"{}\"\ndeep: {{port: 80, name: x}}\n", word(draw)),
        _ => laid_out(draw),
    }
}

/// YAML with comments, anchors, quotes and blocks in any place.
fn laid_out(draw: &mut Draw) -> String {
    let mut text = String::new();
    remark(draw, 0, &mut text);
    let host = match draw.number(0, 5) {
        0 => format!("'{}'", word(draw)),
        1 => format!("\"{}\"", word(draw)),
        2 => format!("&x {}", word(draw)),
        3 => format!("|\n  {}\n  # no remark", word(draw)),
        4 => draw.number(0, 90).to_string(),
        _ => word(draw),
    };
    text.push_str(&format!("host: {host}{}\n", behind(draw)));
    remark(draw, 0, &mut text);
    let indent = draw.pick(&[2, 2, 4]);
    text.push_str(&format!("deep:{}\n", behind(draw)));
    remark(draw, indent, &mut text);
    let pad = " ".repeat(indent);
    text.push_str(&format!("{pad}port: {}{}\n", draw.pick(&["80", "'80'", "", "~", "!!str 80", "80.0"]), behind(draw)));
    remark(draw, indent, &mut text);
    if draw.chance(30) {
        text.push_str(&format!("{pad}list: [a, 'b',{} c]{}\n", draw.pick(&["", "\n      "]), behind(draw)));
    } else {
        text.push_str(&format!("{pad}list:{}\n", behind(draw)));
        let own = indent + draw.pick(&[0, 2]);
        for item in ["a", "b"] {
            remark(draw, own, &mut text);
            text.push_str(&format!("{}- {item}{}\n", " ".repeat(own), behind(draw)));
        }
    }
    let below = draw.pick(&[0, indent]);
    remark(draw, below, &mut text);
    if draw.chance(30) {
        text.push_str(&format!("last: {}\n", draw.pick(&["{a: b}", "[]", "word word", "\"a\\tb\"", "true"])));
        remark(draw, 0, &mut text);
    }
    if draw.chance(20) {
        text.truncate(text.trim_end().len());
    }
    text
}

fn behind(draw: &mut Draw) -> &'static str {
    if draw.chance(15) { "  # behind" } else { "" }
}

/// Remarks and empty lines, or nothing.
fn remark(draw: &mut Draw, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match draw.number(0, 11) {
        0 => text.push_str(&format!("{pad}# {}\n", word(draw))),
        1 => text.push_str(&format!("{pad}# {}\n\n", word(draw))),
        2 => text.push_str(&format!("\n{pad}# {}\n{pad}# more\n", word(draw))),
        3 => text.push_str(&format!("{pad}# one\n\n{pad}# {}\n", word(draw))),
        4 => text.push('\n'),
        _ => {}
    }
}

/// A scalar written out, of every type that YAML knows.
pub fn scalar(draw: &mut Draw) -> Value {
    if draw.chance(50) {
        return Value::String(prose(draw));
    }
    if draw.chance(30) {
        return json!(draw.number(0, 70_000));
    }
    raw(draw.pick(&[
        "1",
        "0",
        "-1",
        "007",
        "0o17",
        "0x1F",
        "0b11",
        "1_000",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "1.0",
        "1.5",
        "1e3",
        "1E+3",
        "1e-7",
        "123456789.123456789",
        "1e20",
        "1e21",
        "1.5e10",
        "0.1",
        ".5",
        "5.",
        "+.5",
        "-0",
        "-0.0",
        "+1",
        "1.30",
        "1__0",
        "true",
        "True",
        "TRUE",
        "false",
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "n",
        "Y",
        "null",
        "~",
        "Null",
        "",
        "2001-12-14",
        "2001-1-2",
        "2001-12-14t21:59:43.10-05:00",
        "2001-12-14 21:59:43.10 -5",
        "2001-12-14 21:59:43Z",
        "12:30",
        "12:30:45",
        "1:2.5",
        "'1'",
        "\"1\"",
        "'yes'",
        "!!str 1",
        "!!str true",
        "!!int \"3\"",
        "!!float 1",
        "!!binary aGVsbG8=",
        "!!bool yes",
        "!custom a",
        "! a",
        "=",
        "a b",
        "a:b",
        "http://a:80/b?c=d#e",
        "0.0.0.0",
        "1.2.3",
        "1e",
        "0x",
        "0o8",
        "08",
        "09.5",
        "1,000",
        "<<x",
        "\"a\\nb\"",
        "\"a\\tb\"",
        "\"\\u00e9\\U0001F600\"",
        "\"\\x41\"",
        "\"a\\/b\"",
        "\"it\\'s\"",
        "'it''s'",
        "\"a \\\n                        b\"",
        "\"line one\n\n                        line two\"",
        "'a\n                        b'",
        "a\n                        b",
        "a\n\n                        b",
        "é",
        "😀",
        "-a",
        "?a",
        ":a",
        "a#b",
        "a'b",
        "a\"b",
        "\\a",
        "\\d+\\.\\d*",
        "$(NAME)",
        "\"a\nb\"",
        "'a\n b'",
        "100m",
        "1Gi",
        "50%",
        "v1.2.3",
        "1.2.3-rc.1",
        "0001-01-01",
        "0.1e1",
        "1e400",
        "-1e400",
        "00",
        "0_1",
        "1_",
        "_1",
        "+0x1f",
        "-0x1f",
        "-0o7",
        "0b2",
        "0xg",
    ]))
}

/// A key of a data map.
pub fn key(draw: &mut Draw) -> String {
    match draw.number(0, 9) {
        0 => format!("{}.yaml", word(draw)),
        1 => word(draw).to_uppercase(),
        2 => format!("{}{}", word(draw), draw.number(0, 120)),
        3 => draw.pick(&["a.b/c", "a_b", "a-b", "A1", "a10", "a9", "x.y.z", "example.com/key", "_a", "-a"]).to_owned(),
        _ => word(draw),
    }
}

/// A key that YAML may take for something else.
pub fn odd_key(draw: &mut Draw) -> Value {
    raw(draw.pick(&[
        "y",
        "n",
        "yes",
        "on",
        "1",
        "1.5",
        "true",
        "null",
        "~",
        "2001-01-01",
        "0x1f",
        "'1'",
        "\"a b\"",
        "a b",
        "é",
        "😀",
        "''",
        "12:30",
        "=",
        "-a",
        "0o7",
        "1_0",
    ]))
}
