#include "chapters/03_data_parallel/report/communication_table.hpp"

#include <fmt/format.h>

#include "common/base/units.hpp"

namespace ultra::data_parallel {

std::string format_communication_table(const train::TrainResult& result) {
  std::string text = fmt::format("\n{:>4}  {:>12}  {:>10}  {:>15}  {:>10}  {:>8}\n", "rank", "sent",
                                 "compute s", "communication s", "exposed s", "hidden");
  for (const train::RankSummary& rank : result.ranks) {
    const CommStats& traffic = rank.communication;
    const double hidden = traffic.busy_seconds - traffic.exposed_seconds;
    const std::string share = traffic.busy_seconds > 0
                                  ? fmt::format("{:.0f}%", 100 * hidden / traffic.busy_seconds)
                                  : std::string("-");
    text += fmt::format("{:>4}  {:>12}  {:>10.2f}  {:>15.2f}  {:>10.2f}  {:>8}\n", rank.rank,
                        format_bytes(traffic.sent_bytes()), rank.seconds.compute,
                        traffic.busy_seconds, traffic.exposed_seconds, share);
  }
  return text;
}

}  // namespace ultra::data_parallel
