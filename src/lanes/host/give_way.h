// Lets other threads onto the cores that compute. The system often stops a thread that never sleeps
// at ticks of its clock only, 4 ms apart on many machines. So long may whoever wakes on that core
// wait for it, such as a program that has asked a server for its health, and the server's own
// thread.
#pragma once

namespace troika::lanes {

// Lets the system give the calling thread's core to another thread, if it last did so long enough
// ago; else it only looks at the clock. From the first call on the thread's turns are short.
void give_way();

}  // namespace troika::lanes
