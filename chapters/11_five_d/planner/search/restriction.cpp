#include "chapters/11_five_d/planner/search/restriction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ultra::planner {

std::string Restriction::str() const { return fmt::format("{}", fmt::join(words_, "; ")); }

}  // namespace ultra::planner
