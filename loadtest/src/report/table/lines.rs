//! Lines of a terminal: aligned, wrapped, coloured where that is wanted.

/// What fits on any terminal.
pub(super) const COLUMNS: usize = 80;

/// A text as it grows.
pub(super) struct Lines {
    pub(super) text: String,
    colours: bool,
}

impl Lines {
    pub(super) fn new(colours: bool) -> Lines {
        Lines {
            text: String::new(),
            colours,
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// In a style of the terminal, by its code.
    pub(super) fn styled(&self, code: &str, text: &str) -> String {
        if self.colours {
            return format!("\x1b[{code}m{text}\x1b[0m");
        }
        text.to_owned()
    }

    pub(super) fn title(&mut self, title: &str) {
        let title = self.styled("1", title);
        self.line(&title);
    }

    /// An empty line and a title.
    pub(super) fn group(&mut self, title: &str) {
        self.text.push('\n');
        self.title(title);
    }

    /// A name, a number, and what else is to be said about it.
    pub(super) fn row(&mut self, name: &str, number: &str, note: &str) {
        self.line(&format!("  {name:<24}{number:>14}  {note}"));
    }

    /// A mark that says the same without a colour.
    pub(super) fn mark(&self, held: bool) -> String {
        if held {
            self.styled("32", "✓")
        } else {
            self.styled("31", "✗")
        }
    }

    /// A sentence behind a mark, its further lines below its first.
    pub(super) fn marked(&mut self, indent: usize, held: bool, sentence: &str) {
        let mark = self.mark(held);
        self.sentence(&format!("{:indent$}{mark} ", ""), indent + 2, sentence);
    }

    /// A sentence behind what takes so many columns.
    pub(super) fn sentence(&mut self, start: &str, columns: usize, sentence: &str) {
        for (index, line) in wrap(sentence, COLUMNS - columns).iter().enumerate() {
            if index == 0 {
                self.line(&format!("{start}{line}"));
            } else {
                self.line(&format!("{:columns$}{line}", ""));
            }
        }
    }
}

/// Lines of at most so many characters, broken between words; a longer word stays whole.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("extraordinarily long", 7), ["extraordinarily", "long"]);
        assert!(wrap("  ", 7).is_empty());
        let mut lines = Lines::new(false);
        lines.marked(2, true, &"word ".repeat(20));
        assert!(lines.text.starts_with("  ✓ word word"));
        assert!(lines.text.contains("\n    word"));
    }
}
