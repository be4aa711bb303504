//! The report as one self-contained page: time across, offset up, one panel a region.

use super::Report;
use super::text::size;

const PAGE: &str = include_str!("page.html");

impl Report {
    /// The report as an HTML page.
    pub fn html(&self) -> String {
        let mut data = self.value();
        // The rows of `value` stand in the same order.
        for (shown, row) in data["values"].as_array_mut().into_iter().flatten().zip(&self.values) {
            shown["last_reader"] = row.last_reader.clone().into();
        }
        data["points"] = self.points.into();
        data["text"] = self.text(true).into();
        data["peak_point"] = self.peak.as_ref().map(|peak| peak.point).into();
        data["peak_step"] = self.peak.as_ref().map(|peak| peak.step.as_str()).into();
        // "</script" would end the script it stands in, "<!--" keep it from its end.
        let data = data.to_string().replace('<', "\\u003c");
        PAGE.replace("{{title}}", &escape(&self.program))
            .replace("{{peak}}", &size(self.peak_bytes()))
            .replace("{{data}}", &data)
    }
}

/// Text for the page; a name in braces is not taken for one of the page's own.
fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('{', "&#123;")
}
