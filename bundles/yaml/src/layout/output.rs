//! Signs, lines and comments, one after another.

use super::write::Writer;

impl Writer<'_> {
    pub(super) fn head_comment(&mut self) {
        if !self.pending.tail.is_empty() {
            self.start_line();
            let tail = std::mem::take(&mut self.pending.tail);
            self.comment(&tail);
            self.foot_indent = Some(self.indent.unwrap_or(0));
        }
        if !self.pending.head.is_empty() {
            self.start_line();
            let head = std::mem::take(&mut self.pending.head);
            self.comment(&head);
        }
    }

    /// Writes the comment behind what was written; `breaks` asks for a line break also where there is none.
    pub(super) fn line_comment(&mut self, breaks: bool) {
        if self.pending.line.is_empty() {
            if breaks {
                self.break_line();
            }
            return;
        }
        if !self.whitespace {
            self.put(" ");
        }
        let line = std::mem::take(&mut self.pending.line);
        self.comment(&line);
    }

    pub(super) fn foot_comment(&mut self) {
        if self.pending.foot.is_empty() {
            return;
        }
        self.start_line();
        let foot = std::mem::take(&mut self.pending.foot);
        self.comment(&foot);
        self.foot_indent = Some(self.indent.unwrap_or(0));
    }

    fn comment(&mut self, text: &str) {
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.break_line();
            }
            if !line.is_empty() {
                if index > 0 {
                    self.start_line();
                }
                if !line.starts_with('#') {
                    self.put("# ");
                }
                self.put(line);
                self.indention = false;
            }
        }
        if !text.ends_with('\n') {
            self.break_line();
        }
        self.whitespace = true;
    }

    pub(super) fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    pub(super) fn break_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
        self.indention = true;
    }

    /// Goes to the indent, on a new line unless only indicators stand before it.
    pub(super) fn start_line(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.indention || self.column > indent || self.column == indent && !self.whitespace {
            self.break_line();
        }
        if self.foot_indent == Some(indent) {
            self.break_line();
        }
        while self.column < indent {
            self.put(" ");
        }
        self.whitespace = true;
        self.foot_indent = None;
    }

    pub(super) fn indicator(&mut self, sign: &str, needs_blank: bool, is_blank: bool, is_indention: bool) {
        if needs_blank && !self.whitespace {
            self.put(" ");
        }
        self.put(sign);
        self.whitespace = is_blank;
        self.indention = self.indention && is_indention;
    }
}
