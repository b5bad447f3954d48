#include "common/checkpoint/json_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/checkpoint/files/file_damage.hpp"

namespace ultra::checkpoint {
namespace {

using Json = nlohmann::json;

/// The place of an error, counted from 1 by the library, with what stands there.
std::string shown_place(std::string_view text, std::size_t position) {
  constexpr std::size_t kShownBytes = 24;
  const std::size_t at = std::min(position == 0 ? 0 : position - 1, text.size());
  const std::size_t begin = at - std::min(at, kShownBytes / 2);
  return fmt::format("at byte {} of {}, at {}", at, text.size(),
                     shown_text(text.substr(begin, kShownBytes)));
}

// The library's words -----------------------------------------------------------------------------

/// What stands behind a mark; nothing without one.
std::string_view behind(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::string_view rest = behind(text, begin);
  return rest.substr(0, rest.find(end));
}

/// Without "[json.exception.type_error.302] ".
std::string_view without_id(std::string_view what) {
  const std::string_view said = behind(what, "] ");
  return said.empty() ? what : said;
}

/// A type of JSON, with its article.
std::string in_words(std::string_view type) {
  if (type == "null") return "null";
  if (type == "array") return "a list";
  if (type == "string") return "a text";
  if (type == "boolean") return "true or false";
  return fmt::format("{} {}", type == "object" ? "an" : "a", type);
}

}  // namespace

std::string read_text(FileLayer& files, const std::filesystem::path& path, FileOf owner) {
  const auto file = files.open_for_reading(path);
  if (file->size() > kMaxJsonFileBytes) {
    report_damaged(owner, path.string(),
                   fmt::format("it has {}, expected at most {}", format_bytes(file->size()),
                               format_bytes(kMaxJsonFileBytes)));
  }
  try {
    std::string text(static_cast<std::size_t>(file->size()), '\0');
    file->read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
  } catch (const std::bad_alloc&) {
    throw FileError(fmt::format("file '{}' of {} does not fit into this machine's memory.",
                                path.string(), format_bytes(file->size())));
  }
}

Json parse_json(const std::string& text, const std::string& path, FileOf owner) {
  // The depth is that of the list or object which something is in: 0 for the outermost one.
  const auto expect_shallow = [&](int depth, Json::parse_event_t event, Json&) {
    const bool begins =
        event == Json::parse_event_t::array_start || event == Json::parse_event_t::object_start;
    if (!begins || depth < kMaxJsonDepth) return true;
    report_damaged(
        owner, path,
        fmt::format("its lists and objects are nested more than {} deep", kMaxJsonDepth));
  };
  try {
    return Json::parse(text, expect_shallow);
  } catch (const Json::parse_error& error) {
    report_damaged(owner, path, fmt::format("it is no JSON {}", shown_place(text, error.byte)));
  } catch (const Json::out_of_range&) {
    report_damaged(owner, path, "a number in it is too large");
  }
}

std::string said_of_file(const Json::exception& error) {
  const std::string_view said = without_id(error.what());
  if (said.starts_with("key '")) {
    return fmt::format("it has no {}", between(said, "key ", " not found"));
  }
  if (said.starts_with("type must be ")) {
    return fmt::format("{} stands where {} belongs", in_words(behind(said, "but is ")),
                       in_words(between(said, "type must be ", ", but is ")));
  }
  if (said.starts_with("cannot use ")) {
    return fmt::format("{} stands where an object belongs", in_words(behind(said, " with ")));
  }
  if (said.starts_with("incompatible ReferenceType")) {
    return fmt::format("{} stands where a list belongs", in_words(behind(said, "type is ")));
  }
  if (said.starts_with("array index ")) return "a list in it is too short";
  return std::string(said);
}

void report_json(const std::string& path, const Json::exception& error, FileOf owner) {
  report_damaged(owner, path, said_of_file(error));
}

std::string shown_json(const Json& json) {
  constexpr std::size_t kMostBytes = 80;
  constexpr int kNoIndent = -1;
  constexpr bool kAscii = true;
  const std::string text = json.dump(kNoIndent, ' ', kAscii, Json::error_handler_t::replace);
  return text.size() > kMostBytes ? text.substr(0, kMostBytes) + "..." : text;
}

}  // namespace ultra::checkpoint
