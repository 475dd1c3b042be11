# Divides its time between heavy (6 parts), medium (3) and light (1), whose work is that of spin.
# It runs for some seconds after each line that it reads, and prints how many ns it was in each,
# by its own clock, and how often a signal found it in each, by its own backtrace.
def spin(n)
  x = 0
  while x < n
    x += 1
  end
end

def heavy(n)
  spin(6 * n)
end

def medium(n)
  spin(3 * n)
end

def light(n)
  spin(n)
end

NAMES = %w[heavy medium light].freeze
$time = Hash.new(0)
$found = Hash.new(0)

def timed(name, n)
  from = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  send(name, n)
  $time[name] += Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - from
end

def turns(seconds)
  to = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < to
    NAMES.each { |name| timed(name, rand(1000..9000)) }
  end
end

trap("USR1") do
  labels = caller_locations(0).map(&:label)
  $found[NAMES.find { |name| labels.include?(name) }] += 1
end
puts 1
$stdout.flush
while gets
  $time.clear
  $found.clear
  turns(4)
  puts NAMES.map { |name| $time[name] }.join(" ")
  puts NAMES.map { |name| $found[name] }.join(" ")
  $stdout.flush
end
