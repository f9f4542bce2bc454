//! Notes in a subset of Markdown: paragraphs, headings, lists, emphasis, code. Everything else, such as HTML and links, is text.

use super::escape;

/// Renders the notes as HTML.
pub fn html(text: &str) -> String {
    let mut out = String::new();
    for block in blocks(text) {
        let first = block[0].as_str();
        if is_fence(first) {
            out.push_str(&format!("<pre><code>{}</code></pre>\n", escape(&block[1..].join("\n"))));
        } else if let Some(title) = heading(first) {
            out.push_str(&format!("<h3>{}</h3>\n", inline(title)));
        } else if let Some((tag, _)) = list_item(first) {
            let mut items: Vec<String> = Vec::new();
            for line in &block {
                match list_item(line) {
                    Some((_, item)) => items.push(item.to_owned()),
                    None => {
                        items.last_mut().expect("a list begins with an item").push_str(&format!(" {line}"));
                    }
                }
            }
            let items: String = items.iter().map(|item| format!("<li>{}</li>\n", inline(item))).collect();
            out.push_str(&format!("<{tag}>\n{items}</{tag}>\n"));
        } else {
            out.push_str(&format!("<p>{}</p>\n", inline(&block.join("\n"))));
        }
    }
    out
}

/// The lines of every block: code with its opening fence, a heading, a list with the continuation lines of its items, or a
/// paragraph.
fn blocks(text: &str) -> Vec<Vec<String>> {
    let mut blocks: Vec<Vec<String>> = Vec::new();
    let (mut open, mut fenced) = (false, false);
    for untrimmed in text.lines() {
        let line = untrimmed.trim();
        if fenced {
            fenced = !is_fence(line);
            if let Some(code) = blocks.last_mut().filter(|_| fenced) {
                code.push(untrimmed.to_owned());
            }
            continue;
        }
        fenced = is_fence(line);
        if line.is_empty() {
            open = false;
            continue;
        }
        let joins = open
            && !fenced
            && heading(line).is_none()
            && blocks.last().is_some_and(|block| {
                heading(&block[0]).is_none() && (list_item(line).is_none() || list_item(&block[0]).is_some())
            });
        match blocks.last_mut().filter(|_| joins) {
            Some(block) => block.push(line.to_owned()),
            None => blocks.push(vec![line.to_owned()]),
        }
        open = !fenced;
    }
    blocks
}

/// Whether the line begins or ends a block of code.
fn is_fence(line: &str) -> bool {
    line.starts_with("```") && !line.trim_start_matches('`').contains('`')
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    (line.starts_with('#') && title.starts_with(' ')).then(|| title.trim())
}

/// The tag of the list that a line is an item of, and the item's text; `None` if the line is no item.
fn list_item(line: &str) -> Option<(&'static str, &str)> {
    if let Some(item) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some(("ul", item));
    }
    let (number, item) = line.split_once(". ")?;
    (!number.is_empty() && number.bytes().all(|c| c.is_ascii_digit())).then_some(("ol", item))
}

/// Renders text with `code`, **strong** and *emphasis*.
pub(super) fn inline(text: &str) -> String {
    for (mark, tag) in [("`", "code"), ("**", "strong"), ("*", "em")] {
        let Some((before, rest)) = text.split_once(mark) else { continue };
        // Text between marks begins and ends without a space: `5 * 3 * 2` is a product.
        let is_marked = |(inside, _): &(&str, &str)| !inside.is_empty() && inside.trim() == *inside;
        let Some((inside, after)) = rest.split_once(mark).filter(is_marked) else { continue };
        let inside = if tag == "code" { escape(inside) } else { inline(inside) };
        return format!("{}<{tag}>{inside}</{tag}>{}", inline(before), inline(after));
    }
    escape(text)
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn paragraphs_lists_and_emphasis_are_shown() {
        let text = "# Why\nIt *looks*\n**twice**.\n- one\n  more\n- `a < *b*`\n\n1. first\n2. second\n\nEnd";
        let expected = "<h3>Why</h3>\n<p>It <em>looks</em>\n<strong>twice</strong>.</p>\n<ul>\n<li>one more</li>\n\
                        <li><code>a &lt; *b*</code></li>\n</ul>\n<ol>\n<li>first</li>\n<li>second</li>\n</ol>\n<p>End</p>\n";
        assert_eq!(html(text), expected);
    }

    #[test]
    fn code_between_fences_stays_as_it_is() {
        let text = "Do\n```sh\nls *.png *.jpg\n\n  # <a>\n```\nso\n```all` one```\n```\nopen";
        let expected = "<p>Do</p>\n<pre><code>ls *.png *.jpg\n\n  # &lt;a&gt;</code></pre>\n\
                        <p>so\n```all` one```</p>\n<pre><code>open</code></pre>\n";
        assert_eq!(html(text), expected);
    }

    #[test]
    fn what_looks_like_html_or_a_link_is_text() {
        let text = "<script>alert(1)</script> [here](javascript:x) ![](http://x) 5 * 3 \" ' & **";
        let expected = "<p>&lt;script&gt;alert(1)&lt;/script&gt; [here](javascript:x) ![](http://x) 5 * 3 &quot; &#39; &amp; **</p>\n";
        assert_eq!(html(text), expected);
    }

    #[test]
    fn marks_without_an_end_and_empty_notes_are_text() {
        assert_eq!((html("").as_str(), html("*a `b **").as_str()), ("", "<p>*a `b **</p>\n"));
    }
}
