#include "common/checkpoint/models/model_family.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/checkpoint/json_file.hpp"

namespace ultra::checkpoint {

Json member_or_null(const Json& object, const char* name) {
  const Json* found = object.find(name);
  return found == nullptr ? Json() : *found;
}

Json HubConfig::member(const char* name) const { return member_or_null(config_, name); }

std::size_t HubConfig::size(const char* name) const {
  const auto size = whole_number_in<std::size_t>(config_, name);
  if (size > 0) return size;
  throw JsonError(fmt::format("'{}' is 0", name));
}

std::size_t HubConfig::size_or(const char* name, std::size_t otherwise) const {
  return member(name).is_null() ? otherwise : size(name);
}

void HubConfig::expect_said(std::initializer_list<const char*> names) const {
  for (const char* name : names) static_cast<void>(config_.at(name));
}

void HubConfig::expect(const char* name, const Json& ours) const {
  expect(name, member(name), ours);
}

void HubConfig::expect(const std::string& name, const Json& found, const Json& ours) const {
  if (found.is_null() || found == ours) return;
  refuse(fmt::format("has {} {}, and this program's model has {} only. Choose a model without it.",
                     name, shown_json(found), shown_json(ours)));
}

void HubConfig::refuse(const std::string& what) const {
  throw FileError(fmt::format("'{}' {}", path_, what));
}

}  // namespace ultra::checkpoint
