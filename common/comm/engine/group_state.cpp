#include "common/comm/engine/group_state.hpp"

namespace ultra::comm {

std::shared_ptr<GroupState> GroupState::join(std::shared_ptr<RankState> own,
                                             std::shared_ptr<Transport> control, std::string name) {
  auto group = std::make_shared<GroupState>();
  group->transport = own->link ? slowed(control, own->link) : control;
  group->control = std::move(control);
  group->name = std::move(name);
  group->id = own->groups++;
  group->own = std::move(own);
  return group;
}

void GroupState::number(OperationInfo& info) {
  info.communicator = name;
  info.communicator_id = id;
  info.sequence = sequence++;
}

}  // namespace ultra::comm
