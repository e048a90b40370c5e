# Makes the devdax namespace that the other parts start from.
. /vm/lib.sh
show ndctl create-namespace -f -e namespace0.0 -m devdax -M mem -a 2M
must test -c $dev
