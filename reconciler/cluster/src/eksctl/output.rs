//! What a program printed, as evidence: its end, without colours and without anything secret.

use std::sync::LazyLock;

use regex::Regex;

/// How many lines are kept, and how long one may be.
const LINES: usize = 20;
const LENGTH: usize = 300;

/// Colours, and what else moves the cursor.
static CONTROL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\x1b\[[0-9;?]*[ -/]*[@-~]").ok());

/// Access keys of AWS, tokens, signatures of addresses, private keys, and whatever is called a secret.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"\b(?:AKIA|ASIA|AIDA|AROA)[0-9A-Z]{12,}",
        r"k8s-aws-v1\.[A-Za-z0-9_=-]+",
        r"(?i)\bX-Amz-(?:Signature|Credential|Security-Token)=[^&\s]+",
        r#"(?i)\b(?:aws_)?(?:secret(?:_?access)?_?key|session_?token|password|bearer|authorization)["']?\s*[:= ]\s*\S+"#,
        r"-----BEGIN [A-Z ]+-----.*",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_.-]+",
    ];
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

/// The last lines of an output.
pub(super) fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<String> = text.lines().map(cleaned).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(LINES);
    lines.into_iter().skip(from).collect()
}

fn cleaned(line: &str) -> String {
    let mut line = match CONTROL.as_ref() {
        Some(control) => control.replace_all(line, "").into_owned(),
        None => line.to_owned(),
    };
    for secret in SECRETS.iter() {
        line = secret.replace_all(&line, "[redacted]").into_owned();
    }
    let mut cut: String = line.trim().chars().filter(|character| !character.is_control()).take(LENGTH).collect();
    if line.trim().chars().count() > LENGTH {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_kept() {
        let text = "\u{1b}[36mcreating\u{1b}[0m with AKIAIOSFODNN7EXAMPLE\n\
                    aws_secret_access_key = wJalrXUtnFEMI/K7MDENG\n\
                    GET https://sts/?X-Amz-Credential=abc&X-Amz-Signature=123&x=1\n\
                    token k8s-aws-v1.aHR0cHM6 and eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ.x\n";
        let lines = last_lines(text.as_bytes());
        assert_eq!(
            lines,
            [
                "creating with [redacted]",
                "[redacted]",
                "GET https://sts/?[redacted]&[redacted]&x=1",
                "token [redacted] and [redacted]"
            ]
        );
    }

    #[test]
    fn output_is_bounded() {
        let text = format!("{}\n", "x".repeat(5_000)).repeat(100);
        let lines = last_lines(text.as_bytes());
        assert_eq!(lines.len(), LINES);
        assert!(lines.iter().all(|line| line.chars().count() == LENGTH + 1));
    }
}
